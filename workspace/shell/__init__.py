"""Commands of agents, in a sandbox: what one sees and may use is decided purely, running is thin."""

from workspace.shell.bounds import MOST_SECONDS, Bounds, seconds_for
from workspace.shell.output import Output
from workspace.shell.probe import why_no_sandbox
from workspace.shell.shell import Job, Ran, Shell
from workspace.shell.words import JobWords, job_words

__all__ = [
    "MOST_SECONDS",
    "Bounds",
    "Job",
    "JobWords",
    "Output",
    "Ran",
    "Shell",
    "job_words",
    "seconds_for",
    "why_no_sandbox",
]
