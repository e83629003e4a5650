"""HTML from standard input to Markdown on standard output: a program of its own, with bounds.

Arguments: the folder of the converter's package, the page's URL, seconds of CPU, bytes of memory. The
first line of the output is JSON, the notes on what is missing.

A page can be written so that its Markdown is millions of times larger (a long `<base>` before short
links, a wide row above empty ones), and where memory ends, the converter ends the process that it is in.
"""

import json
import resource
import sys


def main() -> None:
    folder, url, seconds, memory = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.insert(0, folder)
    from html_to_markdown import ConversionOptions, convert

    options = ConversionOptions(
        base_url=url,
        inline_data_media="alt_text_only",
        compact_tables=True,
        sup_symbol="^",
        sub_symbol="~",
    )
    made = convert(sys.stdin.buffer.read().decode(), options)
    notes = [f"incomplete: {w.message}" for w in made.warnings if "exceeded" in str(w.kind)]
    sys.stdout.buffer.write(json.dumps(notes).encode() + b"\n" + (made.content or "").encode())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
