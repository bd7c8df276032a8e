"""The text the models learn from: Python's own library sources and Python's own documentation.

Both are under the PSF licence (see README.md). Code comes from the standard library of the Python that runs this
script; prose from the reStructuredText sources in Debian's `python3.11-doc` package, unpacked into a folder.

    python corpus.py --docs FOLDER --to SCRATCH      writes SCRATCH/corpus.jsonl
"""

import argparse
import json
import re
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

HELD_OUT_EVERY = 10  # one file in ten, whole, chosen by the checksum of its name

# Tables and generated files: long, and unpredictable from the text before.
SKIPPED_FOLDERS = {
    "site-packages",
    "test",
    "tests",
    "idle_test",
    "encodings",
    "__pycache__",
    "lib-dynload",
    "ensurepip",
}
SKIPPED_FILES = {"topics.py", "entities.py", "rfc2217.py", "sre_constants.py"}
MAX_FILE_BYTES = 200_000

ROLE = re.compile(r":[\w:+-]+:`[!~]?([^`<]*?)(?:\s*<[^`>]*>)?`")
LINK = re.compile(r"`([^`<]*?)\s*<[^`>]*>`_{1,2}")
MARKUP = re.compile(r"``|\*\*|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)|\|release\||`_*")


@dataclass(frozen=True)
class Document:
    category: str  # "code" or "prose"
    name: str
    held_out: bool
    text: str


def is_held_out(name: str) -> bool:
    return zlib.crc32(name.encode()) % HELD_OUT_EVERY == 0


def code_documents(stdlib: Path) -> Iterator[Document]:
    for path in sorted(stdlib.rglob("*.py")):
        name = path.relative_to(stdlib).as_posix()
        if SKIPPED_FOLDERS & set(path.relative_to(stdlib).parts) or path.name in SKIPPED_FILES:
            continue
        if 400 < path.stat().st_size < MAX_FILE_BYTES:
            text = path.read_text(encoding="utf-8", errors="ignore").expandtabs(4)
            yield Document("code", name, is_held_out(name), text)


def plain(paragraph: str) -> str:
    """Return the paragraph as one line of plain text, without reStructuredText roles and links."""
    text = " ".join(paragraph.split())
    text = LINK.sub(r"\1", ROLE.sub(r"\1", text))
    return MARKUP.sub("", text).replace("\\", "").strip()


def is_prose(paragraph: str) -> bool:
    """Return whether the text is whole sentences: no directives, tables, examples, or lists of names."""
    if len(paragraph) < 90 or paragraph[-1] not in ".:!?" or ">>>" in paragraph or "::" in paragraph:
        return False
    letters = sum(c.isalpha() or c == " " for c in paragraph)
    return letters > 0.9 * len(paragraph) and not paragraph.startswith((".. ", "+", "|", "=", "$", "#"))


def prose_documents(docs: Path) -> Iterator[Document]:
    for path in sorted(docs.rglob("*.rst.txt")):
        name = path.relative_to(docs).as_posix().split("_sources/")[-1]
        paragraphs = map(plain, re.split(r"\n\s*\n", path.read_text(encoding="utf-8")))
        text = "\n\n".join(filter(is_prose, paragraphs))
        if len(text) > 400:
            yield Document("prose", name, is_held_out(name), text + "\n")


def gather(docs: Path) -> list[Document]:
    """Gather the documents, without duplicates, which would leak from one side of the split to the other."""
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    unique = {d.text: d for d in [*code_documents(stdlib), *prose_documents(docs)]}
    return list(unique.values())


def load(scratch: Path) -> list[Document]:
    with (scratch / "corpus.jsonl").open(encoding="utf-8") as lines:
        return [Document(**json.loads(line)) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, required=True, help="folder with python3.11-doc unpacked in it")
    parser.add_argument("--to", type=Path, required=True, help="scratch folder for the corpus")
    args = parser.parse_args()
    documents = gather(args.docs)
    args.to.mkdir(parents=True, exist_ok=True)
    with (args.to / "corpus.jsonl").open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(asdict(d)) + "\n" for d in documents)
    for category in ("code", "prose"):
        for held_out in (False, True):
            chosen = [d for d in documents if (d.category, d.held_out) == (category, held_out)]
            side = "held out" if held_out else "training"
            print(f"{category} {side}: {len(chosen)} files, {sum(len(d.text) for d in chosen) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
