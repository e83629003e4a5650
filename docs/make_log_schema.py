"""Write ``log.schema.json`` beside this file from the event classes: ``python docs/make_log_schema.py``."""

import json
from pathlib import Path

from orchestrator.logs import log_schema

if __name__ == "__main__":
    target = Path(__file__).with_name("log.schema.json")
    target.write_text(json.dumps(log_schema(), indent=1) + "\n")
