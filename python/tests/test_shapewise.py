"""The wheel as people meet it: arrays, models, reports, errors."""

import importlib.util
import inspect
import json
import pickle
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import shapewise

LLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
}


def test_one_gemm_is_a_report_with_units_in_its_keys():
    report = shapewise.predict_gemm(8192, 4096, 4096, gpu="h200")
    assert isinstance(report, shapewise.OperatorReport)
    assert 0 < report.low_us < report.time_us < report.high_us
    assert report.op.m == 8192 and report.op["n"] == 4096
    document = report.to_dict()
    assert document["schema"] == 1 and document["time_us"] == report.time_us
    assert "90 %" in str(report)
    with pytest.raises(AttributeError, match="time_us"):
        getattr(report, "times")


def test_arrays_give_the_same_times_as_numbers_and_broadcast():
    numpy = pytest.importorskip("numpy")
    sizes = numpy.array([64, 1000, 4096, 8192])
    times = shapewise.predict_gemm(sizes[:, None], sizes, 4096, gpu="a100", dtype="fp16")
    assert times.time_us.shape == times.tier.shape == (4, 4)
    for i, m in enumerate(sizes):
        for j, n in enumerate(sizes):
            one = shapewise.predict_gemm(m, n, 4096, gpu="a100", dtype="fp16")
            assert times.time_us[i, j] == one.time_us
            assert times.low_us[i, j] == one.low_us and times.high_us[i, j] == one.high_us
            assert times.tier[i, j] == one.tier
    attention = shapewise.predict_attention(
        [1, 2], 32, [2048, 4096], 128, kv_heads=8, causal=True, gpu="h100"
    )
    for i, (batch, seq) in enumerate(((1, 2048), (2, 4096))):
        one = shapewise.predict_attention(batch, 32, seq, 128, kv_heads=8, causal=True, gpu="h100")
        assert attention.time_us[i] == one.time_us
    assert shapewise.predict_gemm([], 1, 1).time_us.shape == (0,)


def test_a_wrong_size_in_an_array_names_its_row():
    with pytest.raises(ValueError) as refused:
        shapewise.predict_gemm([8, 16, 0], 8, 8)
    assert refused.value.field == "m" and "row 2" in str(refused.value)
    with pytest.raises(ValueError, match="whole numbers"):
        shapewise.predict_gemm([8.5], 8, 8)
    with pytest.raises(ValueError, match="row 1"):
        shapewise.predict_attention([1, 1], [8, 9], 64, 64, kv_heads=4)


def test_a_model_is_a_preset_a_path_or_a_dict(tmp_path):
    own = shapewise.Model.from_config(LLAMA)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    for path in (tmp_path, tmp_path / "config.json", str(tmp_path)):
        read = shapewise.Model.from_config(path)
        assert read.parameters == own.parameters == 1_100_048_384
        assert read.predict(gpu="h200").time_us == own.predict(gpu="h200").time_us
    preset = shapewise.Model.from_config("llama-3-8b")
    step = preset.predict(gpu="h100", mode="decode", batch=16, context=4096)
    assert step.tokens == 16 and step.workload.context == 4096 and step.tokens_per_s > 0
    assert len(step.lines) == len(step.to_dict()["lines"]) and step.lines[0].op.kind


def test_what_the_command_line_draws_is_drawn_on_axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    model = shapewise.Model.from_config("llama-3-8b")
    step = model.predict(gpu="h100")
    search = shapewise.search("1.3B", gpu="h200", top=3)
    for report in (step, search, model.plan(gpu="h100", gpus=16), pickle.loads(pickle.dumps(search))):
        axes = report.plot()
        assert axes.get_xlabel() and axes.get_ylabel() and axes.get_legend().get_texts()
        assert report.plot(axes) is axes
        axes.figure.canvas.draw()
    assert step.plot().get_xscale() == "log"
    named = {text.get_text() for text in search.plot().texts}
    assert {"#1", "#2", "#3"} <= named
    with pytest.raises(TypeError, match="picture"):
        shapewise.gpus().plot()


def test_every_question_has_an_answer():
    model = shapewise.Model.from_config("gpt2")
    assert {rule.verdict for rule in model.check(gpu="a100").rules} >= {"met", "broken"}
    assert shapewise.check("gpt2", gpu="a100") == model.check(gpu="a100")
    found = shapewise.search("350M", top=2, gpu="h100")
    assert len(found.shapes) == 2 and found.shapes[0].shape.layers > 0
    assert len(model.search(top=2, tolerance=0.05).shapes) == 2
    left = shapewise.search_from("llama-3-8b", "0.7x-latency", mode="decode", gpu="h100")
    assert left.targets[0].reached_ratio <= 0.7 and left.after.time_us < left.before.time_us
    planned = shapewise.plan("llama-3-8b", 16, gpu="h100")
    assert planned == shapewise.Model.from_config("llama-3-8b").plan(16, gpu="h100")
    assert planned.plans[0].gpus == 16
    compared = shapewise.compare("llama-3-8b", 8, gpu="h100,b200")
    assert {each.gpu for each in compared.compared} == {"h100", "b200"}
    curve = shapewise.sweep("gemm", m=2304, n="1024:2048:256", k=4096)
    assert [point.value for point in curve.points] == [1024, 1280, 1536, 1792, 2048]
    assert len(model.sweep(batch="1:4").points) == 4
    assert len(shapewise.sweep("model", architecture="gpt2", batch="1:4").points) == 4
    assert any(gpu.name == "h200" for gpu in shapewise.gpus().gpus)
    assert shapewise.models().models and shapewise.presets().presets
    assert shapewise.ask("predict_gemm", m=8, n=8, k=8) == shapewise.predict_gemm(8, 8, 8)


def _field(number, content):
    """A field of a message: text, bytes or a whole number, all below 128 bytes."""
    if isinstance(content, int):
        low = [content >> place & 0x7F | 0x80 for place in range(0, 21, 7)]
        return bytes([number << 3, *low, content >> 21])
    content = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(content)]) + content


def _onnx():
    """The bytes of a model that multiplies `a` of (batch, 512) by `b` of (512, 1536) in fp16."""

    def tensor(name, *dims):
        dims = (_field(1, _field(2 if isinstance(dim, str) else 1, dim)) for dim in dims)
        kind = _field(1, 10) + _field(2, b"".join(dims))
        return _field(11, _field(1, name) + _field(2, _field(1, kind)))

    node = _field(1, "a") + _field(1, "b") + _field(2, "c") + _field(4, "MatMul")
    graph = _field(1, node) + tensor("a", "batch", 512) + tensor("b", 512, 1536)
    return _field(7, graph)


def test_a_graph_is_a_path_bytes_text_or_a_list(tmp_path):
    gemm = {"kind": "gemm", "m": 512, "n": 1536, "k": 512, "dtype": "fp16", "layout": "nn"}
    listed = shapewise.predict_graph([gemm | {"count": 2}, gemm], gpu="h100")
    assert isinstance(listed, shapewise.GraphReport) and listed.graph == "graph"
    one = shapewise.predict_gemm(512, 1536, 512, dtype="fp16", layout="nn", gpu="h100")
    assert listed.time_us == pytest.approx(3 * one.time_us) and listed.lines[0].count == 3
    lines = (json.dumps(gemm) + "\n") * 3
    assert shapewise.predict_graph(lines, gpu="h100") == listed
    (tmp_path / "ops.jsonl").write_text(lines)
    (tmp_path / "model.onnx").write_bytes(_onnx())
    sized = {"gpu": "h100", "dims": {"batch": 512}}
    for graph, options, name in (
        (tmp_path / "ops.jsonl", {"gpu": "h100"}, str(tmp_path / "ops.jsonl")),
        (str(tmp_path / "ops.jsonl"), {"gpu": "h100"}, str(tmp_path / "ops.jsonl")),
        (tmp_path / "model.onnx", sized, str(tmp_path / "model.onnx")),
        (_onnx(), sized, "graph"),
        (bytearray(_onnx()), sized | {"name": "mine"}, "mine"),
    ):
        read = shapewise.predict_graph(graph, **options)
        assert read.graph == name and read.lines[0].op == listed.lines[0].op
    for graph, options, part in (
        (_onnx(), {}, "open (batch)"),
        (_onnx()[:-1], {}, "whole ONNX file"),
        ([{"kind": "conv"}], {}, "`ops[0].kind`"),
        ([], {}, "no operator"),
        ([1], {}, "`ops`"),
        (str(tmp_path / "model.pt"), {}, ".onnx or .jsonl"),
    ):
        with pytest.raises(shapewise.RequestError, match=re.escape(part)):
            shapewise.predict_graph(graph, **options)
    with pytest.raises(OSError):
        shapewise.predict_graph(tmp_path / "other.onnx")


def test_errors_are_value_errors_with_field_value_and_what_is_allowed():
    model = shapewise.Model.from_config("gpt2")
    for ask, field, value, allowed in (
        (lambda: model.predict(batch=0), "batch", "0", "whole number"),
        (lambda: model.predict(gpu="h1000"), "gpu", "`h1000`", "h100"),
        (lambda: model.predict(dtype="int3"), "dtype", '"int3"', "bf16"),
        (lambda: model.predict(bach=1), "bach", "unknown", "`layers`"),
        (lambda: shapewise.predict_gemm(8, 8, "8"), "k", '"8"', "whole number"),
    ):
        with pytest.raises(shapewise.RequestError) as refused:
            ask()
        error = refused.value
        assert isinstance(error, ValueError)
        assert (error.field, error.value) == (field, value), str(error)
        assert allowed in error.allowed and allowed in str(error), str(error)
    with pytest.raises(shapewise.RequestError, match="`batch` is nan"):
        model.predict(batch=float("nan"))
    with pytest.raises(ValueError, match="nearest"):
        shapewise.Model.from_config("lama-3-8b")
    with pytest.raises(OSError):
        shapewise.Model.from_config("/nowhere/config.json")
    with pytest.raises(ValueError, match="model_type"):
        shapewise.Model.from_config({"model_type": "zamba2"})
    with pytest.raises(TypeError):
        model.predict(batch=object())


def test_rows_are_data_frames():
    pandas = pytest.importorskip("pandas")
    step = shapewise.Model.from_config("gpt2").predict(gpu="a100")
    frame = step.to_frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(step.lines)
    assert frame["time_us"].sum() == pytest.approx(sum(line.time_us for line in step.lines))
    assert "op.kind" in frame.columns
    assert len(shapewise.gpus().to_frame()) > 20
    times = shapewise.predict_gemm([8, 16], 8, 8).to_frame()
    assert list(times.columns) == ["m", "time_us", "low_us", "high_us", "tier"]


    plan = shapewise.plan("llama-3-8b", "8:16", gpu="h100")
    layouts = plan.to_frame()
    assert set(layouts["gpus"]) == {8, 16} and "workload.tp" in layouts.columns


def test_reports_are_markdown_in_notebooks():
    report = shapewise.check("gpt3-2.7b", gpu="a100")
    page = report._repr_markdown_()
    assert "| rule | verdict |" in page and page.count("```") % 2 == 0
    assert pickle.loads(pickle.dumps(report))._repr_markdown_() == page


def test_lists_and_objects_are_taken_where_they_are_meant():
    both = shapewise.compare("llama-3-8b", 8, gpu=["h100", "h200"])
    assert [each.gpu for each in both.compared] == ["h200", "h100"]
    assert both == shapewise.compare("llama-3-8b", 8, gpu="h100,h200")
    models = shapewise.compare(["llama-3-8b", "gpt2-xl"], 8, gpu="h100")
    assert {each.model for each in models.compared} == {"llama-3-8b", "gpt2-xl"}
    swept = shapewise.sweep("gemm", m=[64, 128], n=256, k=256)
    assert [point.value for point in swept.points] == [64, 128]
    assert swept == shapewise.sweep("gemm", m=range(64, 192, 64), n=256, k=256)
    model = shapewise.Model.from_config("llama-3-8b")
    assert both == shapewise.compare(model, 8, gpu="h100,h200")

    class Config:
        def to_dict(self):
            return LLAMA

    assert shapewise.Model.from_config(Config()).parameters == shapewise.Model.from_config(LLAMA).parameters


def test_help_names_every_option():
    for function, option in (
        (shapewise.predict_gemm, "layout"),
        (shapewise.search, "tokens"),
        (shapewise.Model.predict, "context"),
        (shapewise.plan, "gpu"),
    ):
        parameter = inspect.signature(function).parameters[option]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert f"\n{option}: " in function.__doc__


def test_help_ends_with_an_example_that_runs():
    functions = [getattr(shapewise, name) for name in shapewise.__all__]
    functions = [each for each in functions if inspect.isfunction(each)] + [
        each for _, each in inspect.getmembers(shapewise.Model, inspect.isfunction) if not each.__name__.startswith("_")
    ]
    asked = 0
    for function in functions:
        example = re.search(r"^>>> (.*)$", inspect.getdoc(function), re.MULTILINE)
        if example and "torch" not in example[1]:
            assert isinstance(eval(example[1]), shapewise.Report), example[1]
            asked += 1
    assert asked >= 15


def test_a_module_is_its_kernels():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Sequential(torch.nn.Linear(4096, 11008), torch.nn.GELU(), torch.nn.Linear(11008, 4096)).bfloat16()
    tokens = torch.zeros(8, 2048, 4096, dtype=torch.bfloat16)
    forward = shapewise.predict_module(layer, tokens, gpu="h100")
    gemms = [line for line in forward.lines if line.op["kind"] == "gemm"]
    assert [(line.op.m, line.op.n, line.op.k, line.op.layout) for line in gemms] == [
        (16384, 11008, 4096, "tn"),
        (16384, 4096, 11008, "tn"),
    ]
    assert gemms[0].each_us == shapewise.predict_gemm(16384, 11008, 4096, gpu="h100", dtype="bf16", layout="tn").time_us
    both = shapewise.predict_module(layer, (tokens,), backward=True, gpu="h100")
    products = sum(line.count for line in both.lines if line.op["kind"] == "gemm")
    assert products == 5 and 2 < both.time_us / forward.time_us < 4
    assert layer[0].weight.device.type == "cpu" and layer[0].weight.grad is None

    class Attention(torch.nn.Module):
        def forward(self, query, key):
            return torch.nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True, enable_gqa=True)

    heads = {"query": torch.zeros(2, 32, 4096, 128).half(), "key": torch.zeros(2, 8, 4096, 128).half()}
    (line,) = shapewise.predict_module(Attention(), heads, gpu="h100").lines
    assert line.op.kind == "attention" and (line.op.kv_heads, line.op.causal) == (8, True)
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = torch.nn.Linear(256, 512), torch.nn.Linear(256, 1024)

        def forward(self, rows):
            return self.left(rows), self.right(rows)

    two = shapewise.predict_module(Two(), torch.zeros(64, 256), backward=True, gpu="h100", dtype="fp16")
    assert sum(line.count for line in two.lines if line.op["kind"] == "gemm") == 4
    with pytest.raises(shapewise.RequestError, match="backward=False"):
        shapewise.predict_module(Two().requires_grad_(False), torch.zeros(64, 256), backward=True)
    with pytest.warns(UserWarning, match="aten::convolution"):
        shapewise.predict_module(torch.nn.Sequential(torch.nn.Conv1d(8, 8, 3), torch.nn.GELU()), torch.zeros(1, 8, 64))


def test_models_and_reports_go_through_pickles():
    model = pickle.loads(pickle.dumps(shapewise.Model.from_config(LLAMA)))
    step = model.predict(gpu="h200")
    again = pickle.loads(pickle.dumps(step))
    assert type(again) is type(step) and again == step and again.time_us == step.time_us
    assert str(again) == str(step) and len(again.lines) == len(step.lines)


def test_other_threads_run_meanwhile():
    numpy = pytest.importorskip("numpy")
    sizes = numpy.arange(1, 20_001) * 8
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(time.perf_counter())

    ticker = threading.Thread(target=tick)
    ticker.start()
    begun = time.perf_counter()
    shapewise.predict_gemm(sizes, 4096, 4096)
    took = time.perf_counter() - begun
    done.set()
    ticker.join()
    within = [at for at in ticks if begun < at < begun + took]
    assert len(within) >= min(10, took / 0.05), f"{len(within)} ticks in {took:.3f} s"


def test_importing_needs_neither_numpy_nor_pandas():
    code = "import shapewise, sys; assert not {'numpy', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_framework_is_calibrated_on_measured_steps(tmp_path):
    runs, out = tmp_path / "runs.csv", tmp_path / "mine.toml"
    model = shapewise.Model.from_config("llama-3-8b")
    lines = ["model,gpu,mode,software,batch,seq,dp,zero,seconds"]
    for seq in (1024, 2048, 4096, 8192):
        step = model.predict(gpu="h100", batch=1, seq=seq, dp=8, zero=1)
        lines.append(f"llama-3-8b,h100,train,mine,1,{seq},8,1,{step.time_us / 1e6 * 1.25}")
    runs.write_text("\n".join(lines) + "\n")
    report = shapewise.calibrate(runs, out)
    assert report.framework == "mine" and report.base_mean_ape > 0.1
    usual = model.predict(gpu="h100", batch=1, seq=2048, dp=8, zero=1).time_us
    fitted = model.predict(gpu="h100", batch=1, seq=2048, dp=8, zero=1, framework=str(out)).time_us
    assert fitted / usual == pytest.approx(1.25, rel=0.05)
    rows = [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
    of_rows = shapewise.calibrate(rows)
    assert of_rows.constants == report.constants
    own = model.predict(gpu="h100", batch=1, seq=2048, dp=8, zero=1, framework={"toml": of_rows.toml})
    assert own.time_us == fitted


def test_the_stubs_are_those_of_the_questions():
    stubs = pytest.importorskip("stubs")
    written = stubs.written()
    wrong = "python/shapewise/__init__.pyi has other signatures; run python/tests/stubs.py"
    assert stubs.OUT.read_text() == written, wrong


def test_the_examples_of_the_documentation_run():
    pytest.importorskip("pandas")
    for file, count in ("README.md", 1), ("docs/python.md", 3):
        text = (Path(__file__).parents[2] / file).read_text()
        examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        assert len(examples) == count, file
        for example in examples:
            exec(compile(example, file, "exec"), {})


def test_the_wheel_carries_the_command():
    def run(*words):
        command = Path(sys.executable).with_name("shapewise")
        return subprocess.run([command, *words], capture_output=True, text=True)

    printed = run("predict", "model", "llama-3-8b", "--gpu", "h100", "--wide")
    step = shapewise.Model.from_config("llama-3-8b").predict(gpu="h100")
    assert (printed.returncode, printed.stdout.rstrip(), printed.stderr) == (0, str(step).rstrip(), "")
    wrong = run("predict", "model", "llama-3-8b", "--gpu", "h1oo")
    assert wrong.returncode == 2 and wrong.stdout == "" and "h100" in wrong.stderr


needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture
def ray():
    import ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    yield ray
    ray.shutdown()


@needs_ray
def test_ray_maps_configurations_to_the_same_numbers(ray):
    def times(configs):
        models = [shapewise.Model.from_config(config) for config in configs]
        return [model.predict(gpu="h200", mode="train").time_us for model in models]

    configs = [
        LLAMA | {"num_hidden_layers": layers, "intermediate_size": 128 * width}
        for layers in range(1, 101)
        for width in range(1, 101)
    ]
    tasks = [ray.remote(times).remote(configs[at : at + 500]) for at in range(0, 10_000, 500)]
    mapped = [time for part in ray.get(tasks) for time in part]
    assert mapped == times(configs) and len(set(mapped)) == 10_000


@needs_ray
def test_ray_searches_shards_whose_files_make_the_answer_of_one_search(ray, tmp_path):
    command = [Path(sys.executable).with_name("shapewise"), "search"]
    command += ["--params", "1.3B", "--gpu", "h200", "--seq", "2048"]

    def run(*more):
        return subprocess.run([*command, *map(str, more)], capture_output=True, text=True, check=True).stdout

    files = [tmp_path / f"{index}.json" for index in range(1, 5)]
    shards = [ray.remote(run).remote("--shard", f"{file.stem}/4", "--out", file) for file in files]
    ray.get(shards)
    merged = json.loads(run("--format", "json", "--merge", *files))
    assert merged == json.loads(run("--format", "json", "--exhaustive"))
    assert merged["search"]["lattice_shapes"] > 1_000


# `transformers` keeps these elsewhere or under another name.
MOVED = {"architectures", "partial_rotary_factor", "rope_theta", "rotary_emb_base", "rotary_pct"}


@pytest.mark.parametrize(
    ("like", "more", "kind"),
    [
        ("gpt2-xl", {"params": "1.3B"}, "GPT2Config"),
        ("pythia-6.9b", {"params": "6.9B"}, "GPTNeoXConfig"),
        ("llama-3.2-1b", {"params": "1.3B"}, "LlamaConfig"),
        ("mistral-7b-v0.1", {"params": "7B"}, "MistralConfig"),
        ("olmo-2-7b", {"params": "7B"}, "Olmo2Config"),
        ("qwen2.5-7b", {"params": "7B"}, "Qwen2Config"),
        ("qwen3-8b", {"params": "8B"}, "Qwen3Config"),
        ("mixtral-8x7b", {"params": "30B", "active_params": "8B"}, "MixtralConfig"),
        ("qwen3-30b-a3b", {"params": "30B", "active_params": "3B"}, "Qwen3MoeConfig"),
        (None, {"params": "30B", "active_params": "3B", "shared_experts": 1}, "Glm4MoeConfig"),
        ("deepseek-v2-lite", {"params": "16B"}, "DeepseekV2Config"),
        ("deepseek-v3", {"params": "30B", "active_params": "3B", "dense_layers": 1}, "DeepseekV3Config"),
        (None, {"params": "7B", "kv_lora_rank": 512}, "DeepseekV3Config"),
        (None, {"params": "7B", "window_layers": 24, "layers": 32}, "MinistralConfig"),
    ],
)
def test_searched_configs_load_in_transformers(tmp_path, like, more, kind):
    transformers = pytest.importorskip("transformers")
    options = more if like is None else more | {"like": like}
    configs = shapewise.search(gpu="h100", top=2, export=True, **options).to_dict()["configs"]
    assert len(configs) == 2
    for config in configs:
        (tmp_path / "config.json").write_text(json.dumps(config))
        loaded = transformers.AutoConfig.from_pretrained(tmp_path)
        assert type(loaded).__name__ == kind
        for key, value in config.items():
            if key not in MOVED:
                held = getattr(loaded, key)
                # Beside PyTorch, transformers holds its type and not the name.
                assert (str(held).removeprefix("torch.") if key == "torch_dtype" else held) == value, key
