"""How long GEMMs, attention and whole transformers take on a GPU, without one.

Times are in microseconds, rates in the unit that their name ends with, and every time comes with a
90 % interval (`low_us`, `high_us`) and a tier that says where it comes from: measured, learned,
transferred or roofline. Nothing here needs a network or a GPU.
"""

import base64 as _base64
import inspect as _inspect
import json as _json
import keyword as _keyword
import os as _os
import warnings as _warnings
from pathlib import Path as _Path

from shapewise import _shapewise
from shapewise._report import Record, Report, Times, _report_class
from shapewise._shapewise import RequestError, __version__

_DESCRIBED = _json.loads(_shapewise.questions())
_QUESTIONS = {question["name"]: question for question in _DESCRIBED["questions"]}
_CLASSES = {name: _report_class(question) for name, question in _QUESTIONS.items()}
globals().update({report.__name__: report for report in _CLASSES.values()})


def ask(question, /, **options):
    """The report on any question by its name, such as "predict_gemm" or "check"."""
    return _ask(question, options)


def _ask(question, options, model=None):
    options = {key: _joined(question, key, value) for key, value in options.items()}
    answer = _shapewise.ask(question, _encoded(_given(options)), model)
    return _CLASSES[question](answer)


def _options(question):
    """The schemas of the options of a question, by name."""
    described = _QUESTIONS[question]
    options = dict(_DESCRIBED["schemas"].get(described["request"], {}).get("properties", {}))
    if options.pop("workload", None):
        options |= _DESCRIBED["schemas"]["WorkloadRequest"]["properties"]
    return options | (_DESCRIBED["target"]["properties"] if described["has_target"] else {})


def _takes_list(schema):
    if "$ref" in schema:
        return _takes_list(_DESCRIBED["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    parts = schema.get("oneOf", []) + schema.get("anyOf", [])
    return "array" in schema.get("type", "") or any(map(_takes_list, parts))


def _joined(question, key, value):
    """A list or a range for an option that is a text with commas, such as `gpu=["h100", "h200"]`, as that text."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise RequestError(f"request: `{key}` is {value}; allowed: a finite number")
    is_list = isinstance(value, (list, tuple, range)) and not any(isinstance(part, (dict, list)) for part in value)
    schema = _options(question).get(key, {}) if is_list else {}
    return value if not schema or _takes_list(schema) else ",".join(map(str, value))


def _plain(value):
    """What JSON cannot write: paths, ranges, and numbers of numpy."""
    if isinstance(value, range):
        return list(value)
    if isinstance(value, _os.PathLike):
        return _os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is no number, text, flag, list or dict")


_encoded = _json.JSONEncoder(default=_plain).encode


def _given(options):
    """What was given; a key that Python reserves has an underscore behind it, as in `pass_`."""
    return {key.rstrip("_"): value for key, value in options.items() if value is not None}


def _is_array(value):
    return isinstance(value, (list, tuple, range)) or getattr(value, "ndim", 0) > 0


def _operators(question, kind, options):
    sizes = {key: value for key, value in options.items() if _is_array(value)}
    if not sizes:
        return _ask(question, options)
    import numpy

    for key, value in options.items():
        if key in sizes or getattr(value, "ndim", None) == 0:
            options[key] = numpy.asarray(value)
    arrays = {key: options.pop(key) for key in sizes}
    for key, value in arrays.items():
        if value.size and value.dtype.kind not in "iu":
            raise RequestError(f"request: `{key}` is an array of {value.dtype}; allowed: whole numbers")
    shaped = numpy.broadcast_arrays(*arrays.values())
    flat = [
        (key, numpy.ascontiguousarray(value, dtype=numpy.int64).reshape(-1))
        for key, value in zip(arrays, shaped)
    ]
    found = _shapewise.times(_encoded(_given(options) | {"kind": kind}), flat)
    return Times(dict(flat), shaped[0].shape, found)


def predict_gemm(m, n, k, **options):
    """The time of a GEMM (m, k) x (k, n).

    Numbers give one report. Arrays of numbers, which broadcast as in numpy, give `Times`.
    """
    return _operators("predict_gemm", "gemm", {"m": m, "n": n, "k": k} | options)


def predict_attention(batch, heads, seq_q, head_dim, **options):
    """The time of a fused (flash) attention; arrays as in `predict_gemm`."""
    sizes = {"batch": batch, "heads": heads, "seq_q": seq_q, "head_dim": head_dim}
    return _operators("predict_attention", "attention", sizes | options)


def predict_graph(graph, **options):
    """The operators of a graph: the path of an .onnx or .jsonl file, ONNX bytes, JSON lines or dicts."""
    is_text = isinstance(graph, str) and graph.lstrip().startswith("{")
    if isinstance(graph, (str, _os.PathLike)) and not is_text:
        path = _os.fspath(graph)
        options = {"name": path} | options
        if path.lower().endswith(".jsonl"):
            with open(path, encoding="utf-8") as file:
                graph = file.read()
        elif path.lower().endswith(".onnx"):
            with open(path, "rb") as file:
                graph = file.read()
        else:
            raise RequestError(f"{path}: the graph is no .onnx or .jsonl; allowed: a file of either")
    if isinstance(graph, (bytes, bytearray, memoryview)):
        given = {"onnx": _base64.b64encode(graph).decode()}
    else:
        given = {"ops": graph}
    return _ask("predict_graph", options | given)


def predict_module(module, inputs, backward=False, **options):
    """The kernels of one call of a `torch.nn.Module`, as PyTorch launches them in eager mode.

    `inputs` is a tensor, a tuple of arguments or a dict of keyword arguments, of any device; nothing is computed.
    `backward` adds the kernels of the backward pass. What is not timed is named in a warning.

    >>> shapewise.predict_module(torch.nn.Linear(4096, 4096), torch.empty(8, 4096), gpu="h100")
    """
    from shapewise import _module

    is_named = isinstance(inputs, dict)
    arguments = () if is_named else inputs if isinstance(inputs, tuple) else (inputs,)
    ops, others = _module.operators(module, arguments, inputs if is_named else {}, backward)
    if others:
        named = ", ".join(f"{name} ({count} times)" for name, count in others.items())
        _warnings.warn(f"not timed: {named}", stacklevel=2)
    return _ask("predict_graph", {"name": type(module).__name__} | options | {"ops": ops})


class Model:
    """A transformer: a preset, the dict of a config.json, or the path of one."""

    __slots__ = ("_config", "_model")

    def __init__(self, model, config):
        self._model = model
        self._config = config

    @classmethod
    def from_config(cls, config):
        """Read a preset's name, the path of a config.json or of its folder, its dict, or a config of transformers."""
        if isinstance(config, Model):
            return config
        if hasattr(config, "to_dict"):
            config = config.to_dict()
        if isinstance(config, dict):
            return cls(_shapewise.Architecture.read(_json.dumps(config)), config)
        name = _os.fspath(config)
        return cls(_shapewise.Architecture.find(name), name)

    @property
    def name(self):
        """What reports call it."""
        return self._model.name

    @property
    def parameters(self):
        """How many it has."""
        return self._model.parameters

    def __repr__(self):
        return f"<shapewise.Model {self.name}, {self.parameters:,} parameters>"

    def __reduce__(self):
        return Model.from_config, (self._config,)

    def _ask(self, question, options):
        return _ask(question, options | {"architecture": self.name}, self._model)

    def predict(self, **options):
        """The time of one step, operator by operator."""
        return self._ask("predict_model", options)

    def check(self, **options):
        """The sizing rules on this shape: what is broken, what it costs, what fixes it."""
        return self._ask("check", options)

    def sweep(self, **options):
        """The time of one step along the one option that is a range START:END:STEP."""
        return self._ask("sweep_model", options)

    def plan(self, gpus=None, **options):
        """The best layouts over a number of GPUs, or over each of a range such as "8:1024"."""
        return self._ask("plan", options | {"gpus": gpus})

    def compare(self, gpus=None, **options):
        """The best layout on each GPU that `gpu` names, with commas between them, or on "all"."""
        return self._ask("compare", options | {"gpus": gpus})

    def search(self, **options):
        """The fastest shapes with as many parameters and the same parts as this model."""
        return _ask("search", options | {"like": self._config})


def search(params=None, **options):
    """The fastest architectures for a number of parameters, such as "6.7B"."""
    return _ask("search", options | {"params": params})


def search_from(from_, target, **options):
    """What a model loses to meet targets such as "0.6x-latency" or ["0.6x-latency", "0.5x-memory"]."""
    targets = [target] if isinstance(target, str) else list(target)
    return _ask("search_from", options | {"from_": from_, "target": targets})


def check(architecture, **options):
    """The sizing rules on a model: what is broken, what it costs, what fixes it."""
    return Model.from_config(architecture).check(**options)


def plan(architecture, gpus=None, **options):
    """The best layouts of a model over a number of GPUs, or over each of a range such as "8:1024"."""
    return Model.from_config(architecture).plan(gpus, **options)


def compare(architecture, gpus=None, **options):
    """The best layout of a model, or of each of a list of names, on each GPU that `gpu` names, or on "all"."""
    if isinstance(architecture, (list, tuple)):
        return _ask("compare", options | {"architecture": ",".join(architecture), "gpus": gpus})
    return Model.from_config(architecture).compare(gpus, **options)


def sweep(kind, **options):
    """The time of a "gemm", an "attention" or a "model" along the one option that is a range.

    >>> shapewise.sweep("gemm", m=4096, n="1024:8192:1024", k=4096, gpu="h100")
    """
    if kind == "model":
        return Model.from_config(options.pop("architecture")).sweep(**options)
    return _ask(f"sweep_{kind}", options)


def calibrate(runs=(), out=None, **options):
    """Fit the constants of a framework to measured steps.

    The new file `out`, or `{"toml": report.toml}`, is a framework from then on.
    """
    runs = [runs] if isinstance(runs, (str, _os.PathLike)) else list(runs)
    if out is None:
        return _ask("calibrate", options | {"runs": runs})
    out = _Path(out)
    report = _ask("calibrate", {"name": out.stem} | options | {"runs": runs})
    with open(out, "x") as file:
        file.write(report.toml)
    return report


def gpus():
    """The known GPUs."""
    return _ask("gpus", {})


def models():
    """The trained models that are built in."""
    return _ask("models", {})


def presets():
    """The published architectures that have a name here."""
    return _ask("presets", {})


def _example(function, question):
    """The call that asks the example of a question."""
    given = dict(_QUESTIONS[question]["example"])
    given |= given.pop("workload", {})
    method = function.__qualname__.startswith("Model.")
    first = next(iter(_inspect.signature(function).parameters)).rstrip("_")
    subject = given.pop(first if first in given else next(iter(given)))
    if method:
        # A search for as many parameters as the model has.
        subject = "gpt2" if question == "search" else subject
        call = f"Model.from_config({subject!r}).{function.__name__}"
    else:
        call = function.__name__
    given = [f"{key}={value!r}" for key, value in given.items()]
    return f">>> shapewise.{call}({', '.join(given if method else [repr(subject), *given])})"


def _documented(function, question):
    """Names every option in the signature and in the help of a function, which ends with an example."""
    own = _inspect.signature(function).parameters.values()
    own = [each for each in own if each.kind is not _inspect.Parameter.VAR_KEYWORD]
    names = {each.name.rstrip("_") for each in own} | {"architecture", "like", "onnx", "ops"}
    options = {key: schema for key, schema in _options(question).items() if key not in names and key.isidentifier()}
    options = {f"{key}_" if _keyword.iskeyword(key) else key: schema for key, schema in options.items()}
    further = [_inspect.Parameter(key, _inspect.Parameter.KEYWORD_ONLY, default=None) for key in options]
    function.__signature__ = _inspect.Signature([*own, *further])
    lines = []
    for key, schema in options.items():
        said = [part["description"] for part in [schema, *schema.get("oneOf", [])] if "description" in part]
        lines.append(f"{key}: {' '.join(said[0].split(chr(10) * 2)[0].split())}" if said else key)
    example = [] if function is predict_module else ["", _example(function, question)]
    function.__doc__ = "\n".join([_inspect.cleandoc(function.__doc__), "", *lines, *example])


for _name in ("predict_gemm", "predict_attention", "predict_graph", "search", "search_from", "calibrate"):
    _documented(globals()[_name], _name)
_documented(predict_module, "predict_graph")
for _function, _name in (("predict", "predict_model"), ("sweep", "sweep_model")):
    _documented(getattr(Model, _function), _name)
for _name in ("check", "plan", "compare"):
    _documented(globals()[_name], _name)
    _documented(getattr(Model, _name), _name)
_documented(Model.search, "search")

__all__ = [
    "Model",
    "Record",
    "Report",
    "RequestError",
    "Times",
    "__version__",
    "ask",
    "calibrate",
    "check",
    "compare",
    "gpus",
    "models",
    "plan",
    "predict_attention",
    "predict_gemm",
    "predict_graph",
    "predict_module",
    "presets",
    "search",
    "search_from",
    "sweep",
    *sorted({report.__name__ for report in _CLASSES.values()}),
]
