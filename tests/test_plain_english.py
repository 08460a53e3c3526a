"""Sentences that a reader must parse twice: the three kinds that the project's rule for plain English names.

Subject, verb, object, as one explains to a colleague. So no sentence begins with "Of"; no noun is replaced by a clause
with "what" ("what was measured is saved": the measurements are saved); and "none" does not deny a sentence.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for folder in ("trigmech", "experiments", "benchmarks")
                 for path in (ROOT / folder).rglob("*.py") if path.name != Path(__file__).name)
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (
    *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "experiments").glob("*.md")))
# Behind these words a clause with "what" is a question that somebody asks, answers or thinks about.
ASKING = {form for verb in ("ask", "say", "tell", "show", "see", "know", "decide", "explain", "learn", "state", "read",
                            "choose", "print", "understand", "record")
          for form in (verb, f"{verb}s", f"{verb}ed", f"{verb}d", f"{verb}ing", f"{verb}n")} | {
    "said", "told", "seen", "shown", "known", "saw", "knew", "chose", "chosen", "deciding", "choosing", "out", "and",
    "but", "or", "matter", "matters", "you", "reader", "user", "users", "readers", "them", "him", "her", "us", "python"}
# "if there is none" is plain.
NOTHING = re.compile(r"(?:is|are|has|have) none")


def faults(text: str) -> list[str]:
    """Return the sentences' faults in a text without code; each with some of the words around it."""
    found = [m.group() for m in re.finditer(r"(?:(?<=[.:;!?] )|(?<=\n\n)|^)Of \w+ \w+", text)]
    for m in re.finditer(r"\b[Ww]hat\b", text):
        before, after = text[: m.start()], text[m.end() :]
        sentence = re.split(r"(?<=[.!?:;])\s|\n\n", before)[-1]
        ends = re.match(r"[^.!?]*([.!?]|$)", after.split("\n\n")[0])
        question = m.group() == "What" and ends is not None and ends.group(1) == "?"
        words = re.findall(r"[\w']+", sentence)
        if not question and after[:1] not in set(".,:;)") and not (words and words[-1].lower() in ASKING):
            found.append(f"{sentence[-40:]}{m.group()}{after[:30]}")
    return found + [m.group() for m in re.finditer(r"\w+ none\b(?! of these)", text) if not NOTHING.match(m.group())]


def without_code(text: str) -> str:
    """Return a page or a docstring without code, quotations, addresses of links, headings and cells of tables."""
    text = re.sub(r"```.*?```|<!--.*?-->", " ", text, flags=re.S)
    text = re.sub(r"^ *\w+(?:, \w+)* : .*$", "\n", text, flags=re.M)
    text = re.sub(r"^ *(?:#+|\||>>>|\.\.\.|- \*\*|\*\*What) ?.*$", "\n", text, flags=re.M)
    text = re.sub(r"\[[Ww]hat[^\]]*\]", "_", re.sub(r"\]\([^)]*\)", "]", text))
    return re.sub(r":\w+:`[^`]*`|`+[^`]*`+|\"[^\"\n]*\"", "_", text)


def texts_of(path: str) -> list[str]:
    """Return the docstrings, comments and messages of a module, each as a text of its own."""
    source = (ROOT / path).read_text(encoding="utf-8")
    tree, found = ast.parse(source), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(ast.get_docstring(node) or "")
        elif isinstance(node, ast.Raise):
            found += [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)
                      and isinstance(part.value, str) and part.value.count(" ") > 2]
        elif isinstance(node, ast.keyword) and node.arg == "help":
            found += [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)
                      and isinstance(part.value, str)]
    comments: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, words = token.start[0], token.string.lstrip("# ")
            if comments and comments[-1][0] == line - 1:
                comments[-1] = line, f"{comments[-1][1]} {words}"
            else:
                comments.append((line, words))
    return found + [words for _, words in comments]


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_in_plain_english(page):
    assert not faults(without_code((ROOT / page).read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES)
def test_docstrings_comments_and_messages_are_in_plain_english(path):
    assert not [fault for text in texts_of(path) for fault in faults(without_code(text))]


@pytest.mark.parametrize("text", [
    "Of 60 faults 45 died.", "It is saved. Of these rows half are new.", "What was measured is saved.",
    "The file holds what was released.", "A sum of what is known.", "Return what a sweep counts.",
    "It needs none at all."])
def test_planted_sentences_are_found(text):
    assert len(faults(without_code(text))) == 1


@pytest.mark.parametrize("text", [
    "The page says what was measured.", "What is a moment? A mean.", "# What is promised", "Half of the rows are new.",
    "`what` is a name.", "| what | command |", "The user decides what to publish."])
def test_plain_sentences_are_accepted(text):
    assert not faults(without_code(text))
