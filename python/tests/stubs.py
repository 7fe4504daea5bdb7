"""Writes shapewise/__init__.pyi from the schemas of the questions; `--check` fails where it differs.

The signatures follow from the one definition of each question in Rust: an option that is added there
is an argument here.
"""

import json
import keyword
import re
import sys
import textwrap
from pathlib import Path

import shapewise

OUT = Path(__file__).parents[1] / "shapewise" / "__init__.pyi"
SIZES = {"Size", "SizeOrZero"}


class Stubs:
    def __init__(self, described):
        self.schemas = described["schemas"]
        self.questions = {question["name"]: question for question in described["questions"]}
        self.reports = {question["report"] for question in described["questions"]}
        self.classes = {}

    def resolved(self, schema):
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def type(self, schema, outer):
        """The type of an option or a key; objects become classes that are named after `outer`, if it is given."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            if name in SIZES:
                return "int"
            return self.type(self.schemas[name], name)
        for joint in ("oneOf", "anyOf"):
            if joint in schema:
                parts = [self.type(part, outer) for part in schema[joint]]
                parts = list(dict.fromkeys(parts))
                return " | ".join(sorted(parts, key=lambda part: part == "None"))
        if "allOf" in schema:
            merged = {"type": "object", "properties": {}, "required": []}
            for part in map(self.resolved, schema["allOf"]):
                merged["properties"] |= part.get("properties", {})
                merged["required"] += part.get("required", [])
            return self.record(outer, merged)
        if "enum" in schema:
            return f"Literal[{', '.join(map(json.dumps, schema['enum']))}]"
        kinds = schema.get("type", "object")
        if isinstance(kinds, list):
            rest = [self.type(schema | {"type": kind}, outer) for kind in kinds if kind != "null"]
            return " | ".join([*rest, *(["None"] if "null" in kinds else [])])
        match kinds:
            case "integer":
                return "int"
            case "number":
                return "float"
            case "string":
                return "str"
            case "boolean":
                return "bool"
            case "null":
                return "None"
            case "array":
                item = schema.get("items")
                return f"list[{self.type(item, outer) if item else 'Any'}]"
        if outer and schema.get("properties"):
            return self.record(outer, schema)
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return f"Mapping[str, {self.type(values, outer)}]"
        return "Mapping[str, Any]"

    def record(self, name, schema):
        """A class of the keys of an object."""
        name = name if name in self.reports else f"_{name}"
        if name not in self.classes:
            self.classes[name] = ""
            base = "Report" if name in self.reports else "Record"
            lines = [f"class {name}({base}):"]
            if "description" in schema:
                lines.append(docstring(schema["description"]))
            for key, value in schema["properties"].items():
                if keyword.iskeyword(key):
                    continue
                kind = self.type(value, camel(name, key))
                if key not in schema.get("required", []) and "None" not in kind:
                    kind += " | None"
                lines.append(f"    {key}: {kind}")
            self.classes[name] = "\n".join(lines)
        return name

    def options(self, question, sizes="int"):
        """The options of a question by name: type, whether it must be given, description."""
        needed = self.schemas.get(self.questions[question]["request"], {}).get("required", [])
        options = {}
        for key, value in shapewise._options(question).items():
            name = value.get("$ref", "").rsplit("/", 1)[-1]
            either = value.get("oneOf", [])
            parts = [part.get("$ref", "").rsplit("/", 1)[-1] for part in either]
            is_size = name in SIZES or bool(SIZES & set(parts))
            kind = sizes if is_size else self.type(value, None)
            kind = kind.replace(" | None", "").replace("list[", "Sequence[")
            said = [one["description"] for one in [value, *either] if "description" in one]
            text = said[0] if said else self.resolved(value).get("description", "")
            name = f"{key}_" if keyword.iskeyword(key) else key
            options[name] = (kind, key in needed, text)
        if question == "compare":
            _, *rest = options["gpu"]
            options["gpu"] = ("str | Sequence[str]", *rest)
        return options


def camel(outer, key):
    return outer.strip("_") + "".join(part.title() for part in re.split(r"\W|_", key))


def docstring(text, options=None, indent="    "):
    text = text.replace("\\", "\\\\").strip()
    lines = textwrap.wrap(" ".join(text.split("\n\n")[0].split()), 96)
    for key, (_, _, help) in (options or {}).items():
        if help:
            help = " ".join(help.split("\n\n")[0].split())
            lines += textwrap.wrap(f"{key}: {help}", 96, subsequent_indent="    ")
    if len(lines) == 1:
        return f'{indent}"""{lines[0]}"""'
    body = "\n".join(f"{indent}{line}" for line in [*lines[1:], ""][:-1])
    return f'{indent}"""{lines[0]}\n\n{body}\n{indent}"""'


def function(name, options, result, text, first=(), method=False, overload=False):
    """A function whose `first` options are positional and whose others are keywords."""
    indent = "    " if method else ""
    arguments = ["self"] if method else []
    for key in first:
        kind, required, _ = options[key]
        arguments.append(f"{key}: {kind}" + ("" if required else " | None = None"))
    rest = {key: value for key, value in options.items() if key not in first}
    if rest:
        arguments.append("*")
    for key, (kind, required, _) in rest.items():
        arguments.append(f"{key}: {kind}" + ("" if required else " | None = None"))
    listed = "".join(f"{indent}    {argument},\n" for argument in arguments)
    head = f"{indent}@overload\n" if overload else ""
    ignored = "  # type: ignore[overload-overlap]" if overload and name.startswith("predict") and result != "Times" else ""
    listed = f"{ignored}\n{listed}{indent}" if arguments else ""
    body = docstring(text, options, indent + "    ")
    return f"{head}{indent}def {name}({listed}) -> {result}:\n{body}\n"


HEAD = '''# Written by python/tests/stubs.py from the definitions of the questions; not by hand.
"""{summary}"""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, overload

__version__: str

class RequestError(ValueError):
    """A request that cannot be met; says which part of it, where it is one."""

    field: str | None
    value: str | None
    allowed: str | None

class _Array(Protocol):
    """An array of numpy, or what has its interface."""

    @property
    def ndim(self) -> int: ...
    def __array__(self) -> Any: ...

class Record:
    """An object inside a report: `record.key` and `record["key"]` are the same."""

    def __init__(self, keys: dict[str, Any]) -> None: ...
    def __getitem__(self, key: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, key: object) -> bool: ...
    def __len__(self) -> int: ...
    def to_dict(self) -> dict[str, Any]:
        """The same as dicts and lists."""

class Report:
    """The answer to a question; `str()` of it is what the program prints."""

    def to_dict(self) -> dict[str, Any]:
        """The whole document: that of the command line's `--format json`."""
    def to_json(self) -> str:
        """The whole document as text."""
    def plot(self, ax: Any = None) -> Any:
        """Draws what the command line's `--plot` draws on axes of matplotlib, new ones if none are given; returns them."""
    def to_frame(self) -> Any:
        """Its rows as a pandas data frame; keys of objects are joined with a dot."""
    def _repr_markdown_(self) -> str: ...

class Times:
    """Predicted times of many operators, in the shape that their sizes broadcast to."""

    time_us: Any
    low_us: Any
    high_us: Any
    @property
    def tier(self) -> Any:
        """Where each time comes from: measured, learned, transferred or roofline."""
    def __len__(self) -> int: ...
    def to_dict(self) -> dict[str, Any]:
        """Sizes that were arrays, times and tiers, as nested lists."""
    def to_frame(self) -> Any:
        """A pandas data frame with a row for each operator."""
'''


def written():
    """The text of the stubs."""
    stubs = Stubs(shapewise._DESCRIBED)
    summary = shapewise.__doc__.strip()
    parts = []
    report = {name: stubs.questions[name]["report"] for name in stubs.questions}
    for question in stubs.questions.values():
        stubs.type({"$ref": f"/{question['report']}"}, question["report"])

    def doc(name):
        return getattr(shapewise, name).__doc__

    for name, first in {
        "predict_gemm": ("m", "n", "k"),
        "predict_attention": ("batch", "heads", "seq_q", "head_dim"),
    }.items():
        for sizes, result in (("int", report[name]), ("int | Sequence[int] | _Array", "Times")):
            options = stubs.options(name, sizes)
            parts.append(function(name, options, result, doc(name), first, overload=True))
    graph = "str | PathLike[str] | bytes | Sequence[Mapping[str, Any]]"
    options = {"graph": (graph, True, "")} | stubs.options("predict_graph")
    for key in ("onnx", "ops"):
        del options[key]
    name = "predict_graph"
    parts.append(function(name, options, report[name], doc(name), ("graph",)))
    module = {"module": ("Any", True, ""), "inputs": ("Any", True, ""), "backward": ("bool", False, "")}
    options = module | {key: option for key, option in options.items() if key not in ("graph", "dims")}
    parts.append(function("predict_module", options, report[name], doc("predict_module"), tuple(module)))
    model = ["class Model:", docstring(shapewise.Model.__doc__)]
    model.append(
        "    @classmethod\n"
        "    def from_config(cls, config: Any) -> Model:\n"
        + docstring(shapewise.Model.from_config.__doc__, indent=" " * 8)
    )
    for name, kind in (("name", "str"), ("parameters", "int")):
        text = docstring(getattr(shapewise.Model, name).__doc__, indent=" " * 8)
        model.append(f"    @property\n    def {name}(self) -> {kind}:\n{text}")
    for name, question, sizes, given in (
        ("predict", "predict_model", "int", "architecture"),
        ("check", "check", "int", "architecture"),
        ("sweep", "sweep_model", "int | str", "architecture"),
        ("plan", "plan", "int", "architecture"),
        ("compare", "compare", "int", "architecture"),
        ("search", "search", "int", "like"),
    ):
        options = stubs.options(question, sizes)
        del options[given]
        text = getattr(shapewise.Model, name).__doc__
        first = ("gpus",) if name in ("plan", "compare") else ()
        model.append(function(name, options, report[question], text, first, method=True).rstrip())
    parts.append("\n".join(model) + "\n")
    architecture = ("str | PathLike[str] | dict[str, Any]", True, "")
    parts.append(function("search", stubs.options("search"), report["search"], doc("search"), ("params",)))
    name = "search_from"
    options = stubs.options(name)
    options["target"] = ("str | Sequence[str]", *options["target"][1:])
    parts.append(function(name, options, report[name], doc(name), ("from_", "target")))
    options = stubs.options("check") | {"architecture": architecture}
    parts.append(function("check", options, report["check"], doc("check"), ("architecture",)))
    for name, several in (("plan", ""), ("compare", " | Sequence[str]")):
        options = stubs.options(name) | {"architecture": (architecture[0] + several, *architecture[1:])}
        parts.append(function(name, options, report[name], doc(name), ("architecture", "gpus")))
    for kind in ("gemm", "attention", "model"):
        options = stubs.options(f"sweep_{kind}", "int | str")
        if kind == "model":
            options["architecture"] = architecture
        options = {"kind": (f'Literal["{kind}"]', True, "")} | options
        parts.append(
            function("sweep", options, report[f"sweep_{kind}"], doc("sweep"), ("kind",), overload=True)
        )
    options = stubs.options("calibrate")
    path = "str | PathLike[str]"
    options["runs"] = (f"{path} | Sequence[{path} | Mapping[str, Any]]", *options["runs"][1:])
    options["out"] = (path, False, "The file to write, whose name is that of the framework.")
    parts.append(function("calibrate", options, report["calibrate"], doc("calibrate"), ("runs", "out")))
    for name in ("gpus", "models", "presets"):
        parts.append(function(name, {}, report[name], doc(name)))
    parts.append(
        "def ask(question: str, /, **options: Any) -> Report:\n" + docstring(shapewise.ask.__doc__) + "\n"
    )
    classes = "\n\n".join(stubs.classes[name] for name in sorted(stubs.classes))
    return "\n".join([HEAD.format(summary=summary), classes, "", *parts])


if __name__ == "__main__":
    text = written()
    if "--check" in sys.argv:
        if OUT.read_text() != text:
            sys.exit(f"{OUT} is not what python/tests/stubs.py writes; run it without --check")
    else:
        OUT.write_text(text)
