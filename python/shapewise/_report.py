"""Reports as objects: keys as attributes, rows as data frames."""

import json

from shapewise import _shapewise


def _wrapped(value):
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrapped(item) for item in value]
    return value


def _plain(keys):
    """What is neither an object nor a list."""
    return {key: value for key, value in keys.items() if not isinstance(value, (dict, list))}


class Record:
    """An object inside a report: `record.key` and `record["key"]` are the same."""

    __slots__ = ("_keys",)

    def __init__(self, keys):
        object.__setattr__(self, "_keys", keys)

    def __getattr__(self, key):
        try:
            return _wrapped(self._keys[key])
        except KeyError:
            raise AttributeError(f"no key {key!r}; keys: {', '.join(self._keys)}") from None

    def __setattr__(self, key, _):
        raise AttributeError(f"{key}: a report cannot be changed")

    def __getitem__(self, key):
        return _wrapped(self._keys[key])

    def __iter__(self):
        return iter(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def __len__(self):
        return len(self._keys)

    def __eq__(self, other):
        return isinstance(other, Record) and self._keys == other._keys

    __hash__ = None

    def __dir__(self):
        return [*super().__dir__(), *self._keys]

    def __repr__(self):
        return f"Record({self._keys!r})"

    def __reduce__(self):
        return Record, (self._keys,)

    def to_dict(self):
        """The same as dicts and lists."""
        return json.loads(json.dumps(self._keys))


class Report:
    """The answer to a question: its keys are attributes, `str()` of it is what the program prints."""

    __slots__ = ("_answer", "_document", "_keys")
    _rows = None

    def __init__(self, answer):
        self._answer = answer
        self._document = None
        self._keys = None

    def _read(self):
        if self._keys is None:
            self._keys = self.to_dict()
        return self._keys

    def __getattr__(self, key):
        if key.startswith("_"):
            raise AttributeError(key)
        if key not in self._read():
            raise AttributeError(f"{type(self).__name__} has no key {key!r}; keys: {', '.join(self._keys)}")
        return _wrapped(self._keys[key])

    def __dir__(self):
        return [*super().__dir__(), *self._read()]

    def __str__(self):
        return self._answer.text()

    def _repr_markdown_(self):
        return self._answer.markdown()

    def __repr__(self):
        keys = _plain(self._read()).items()
        shown = ", ".join(f"{key}={value!r}" for key, value in keys if key != "schema")
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other):
        return isinstance(other, Report) and self.to_json() == other.to_json()

    __hash__ = None

    def __reduce__(self):
        parts = self.to_json(), str(self), self._repr_markdown_(), self._answer.chart()
        return _restored, (type(self).__name__, self._rows, *parts)

    def to_dict(self):
        """The whole document: that of the command line's `--format json`."""
        return json.loads(self.to_json())

    def to_json(self):
        """The whole document as text."""
        if self._document is None:
            self._document = self._answer.json()
        return self._document

    def plot(self, ax=None):
        """Draws what the command line's `--plot` draws: the roofline of a step, the curve of a sweep, the front of a
        search, the layouts of a plan. `ax` are axes of matplotlib, new ones if none are given; returns them.

        >>> shapewise.Model.from_config("llama-3-8b").predict(gpu="h100").plot()
        """
        import matplotlib.pyplot

        text = self._answer.chart()
        if text is None:
            raise TypeError(f"{type(self).__name__} has no picture")
        chart = json.loads(text)
        ax = ax or matplotlib.pyplot.subplots()[1]
        x, y, band = chart["x"], chart["y"], chart["band"]
        ax.set(title=chart["title"], xlabel=_axis(x), ylabel=_axis(y))
        ax.set_xscale("log" if x["log"] else "linear")
        ax.set_yscale("log" if y["log"] else "linear")
        if band:
            ax.fill_between(*zip(*band["points"], strict=True), alpha=0.2, label=band["name"])
        points = [series for series in chart["points"] if series["points"]]
        for series in chart["lines"]:
            ax.plot(*zip(*series["points"], strict=True), label=series["name"])
        for series, areas in zip(points, chart["areas"] or [[]] * len(points), strict=True):
            sizes = [2000 * share for share in areas] or None
            ax.scatter(*zip(*series["points"], strict=True), s=sizes, label=series["name"])
            for point, label in zip(series["points"], series["labels"], strict=False):
                ax.annotate(label, point)
        for marks in chart["marks"]:
            for index, mark in enumerate(marks["at"]):
                ax.axvline(mark["x"], color="grey", linewidth=1, label=None if index else marks["name"])
        ax.legend()
        return ax

    def to_frame(self):
        """Its rows as a pandas data frame; keys of objects are joined with a dot."""
        import pandas

        if self._rows is None:
            return pandas.json_normalize(self._read())
        first, *inner = self._rows.split(".")
        rows = self._read()[first]
        for name in inner:
            rows = [_plain(row) | entry for row in rows for entry in row[name]]
        return pandas.json_normalize(rows)


def _axis(axis):
    return f"{axis['label']}, {axis['unit']}" if axis["unit"] else axis["label"]


class _Stored:
    """A report that came from another process."""

    __slots__ = ("_chart", "_json", "_markdown", "_text")

    def __init__(self, document, text, markdown, chart):
        self._json = document
        self._text = text
        self._markdown = markdown
        self._chart = chart

    def chart(self):
        return self._chart

    def json(self):
        return self._json

    def text(self):
        return self._text

    def markdown(self):
        return self._markdown


def _restored(name, rows, *parts):
    return _report_class({"report": name, "rows": rows})(_Stored(*parts))


_classes = {}


def _report_class(question):
    """The class of the reports on a question."""
    name = question["report"]
    if name not in _classes:
        fields = {"__slots__": (), "__module__": "shapewise", "_rows": question["rows"]}
        _classes[name] = type(name, (Report,), fields)
    return _classes[name]


class Times:
    """Predicted times of many operators, in the shape that their sizes broadcast to."""

    __slots__ = ("_sizes", "_tiers", "high_us", "low_us", "time_us")
    _TIERS = tuple(_shapewise.tiers())

    def __init__(self, sizes, shape, found):
        import numpy

        time, low, high = (numpy.frombuffer(each, dtype=numpy.float64) for each in found[:3])
        self.time_us = time.reshape(shape)
        self.low_us = low.reshape(shape)
        self.high_us = high.reshape(shape)
        self._sizes = {key: size.reshape(shape) for key, size in sizes.items()}
        self._tiers = numpy.frombuffer(found[3], dtype=numpy.uint8).reshape(shape)

    @property
    def tier(self):
        """Where each time comes from: measured, learned, transferred or roofline."""
        import numpy

        return numpy.array(self._TIERS)[self._tiers]

    def __len__(self):
        return len(self.time_us)

    def __repr__(self):
        return f"Times(time_us={self.time_us!r})"

    def to_dict(self):
        """Sizes that were arrays, times and tiers, as nested lists."""
        return {key: column.tolist() for key, column in self._columns().items()}

    def to_frame(self):
        """A pandas data frame with a row for each operator."""
        import pandas

        return pandas.DataFrame({key: column.reshape(-1) for key, column in self._columns().items()})

    def _columns(self):
        found = ("time_us", "low_us", "high_us", "tier")
        return self._sizes | {key: getattr(self, key) for key in found}
