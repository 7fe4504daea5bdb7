# Written by python/tests/stubs.py from the definitions of the questions; not by hand.
"""How long GEMMs, attention and whole transformers take on a GPU, without one.

Times are in microseconds, rates in the unit that their name ends with, and every time comes with a
90 % interval (`low_us`, `high_us`) and a tier that says where it comes from: measured, learned,
transferred or roofline. Nothing here needs a network or a GPU."""

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

class CalibrationReport(Report):
    """A framework that was fitted to measured steps."""
    framework: str
    base: str
    base_mean_ape: float
    fits: Mapping[str, _Fit]
    half_widths: Mapping[str, float]
    constants: list[_Moved]
    toml: str

class CheckReport(Report):
    """One shape under all rules."""
    gpu: str
    model: _ArchitectureShape
    workload: _Workload
    predicted: _StepKeys | None
    impossible: str | None
    broken: int
    rules: list[_RuleKeys]
    notes: list[str] | None
    together: _FixKeys | None

class CompareReport(Report):
    model: str
    parameters: int
    mode: Literal["train", "prefill", "decode"]
    seq: int
    output: int | None
    limits: _LimitKeys | None
    global_batch: int | None
    format: str
    adapters: str | None
    cached_tokens: int | None
    drafts: str | None
    gpus: int | None
    notes: list[str] | None
    compared: list[_ComparedKeys]

class GpusReport(Report):
    """Every known GPU."""
    gpus: list[_GpuLine]

class GraphReport(Report):
    """The predicted operators of a graph."""
    gpu: str
    graph: str
    basis: list[_Basis]
    time_us: float
    low_us: float
    high_us: float
    flops: float
    tier: Literal["measured", "learned", "transferred", "roofline"]
    tier_shares: Mapping[str, float]
    caveats: list[_SharedWarning]
    notes: list[str]
    lines: list[_GraphLine]
    unknown: list[_UnknownNodes]
    fused_nodes: int
    free_nodes: int

class ModelsReport(Report):
    """The built-in models."""
    models: list[_ModelLine]

class OperatorCheckReport(Report):
    """One operator under the rules that apply to it."""
    predicted: OperatorReport
    broken: int
    rules: list[_OperatorDiagnosis]

class OperatorReport(Report):
    """One predicted operator."""
    gpu: str
    op: _Shape
    basis: _Basis | None
    time_us: float
    low_us: float
    high_us: float
    flops: float
    bytes: float
    tflops_per_s: float
    gigabytes_per_s: float
    peak_fraction: float
    bandwidth_fraction: float
    intensity_flops_per_byte: float
    bound: Literal["compute", "memory", "launch"]
    bound_by: Literal["alignment", "waves", "compute", "memory", "launch"] | None
    bound_detail: str | None
    faster: list[_Faster] | None
    waves: _WaveCount | None
    tier: Literal["measured", "learned", "transferred", "roofline"]
    caveats: list[_Warning]
    notes: list[str] | None

class OperatorsReport(Report):
    """Many predicted operators."""
    ops: list[OperatorReport]

class PlanReport(Report):
    model: str
    parameters: int
    mode: Literal["train", "prefill", "decode"]
    seq: int
    output: int | None
    limits: _LimitKeys | None
    global_batch: int | None
    format: str
    adapters: str | None
    cached_tokens: int | None
    drafts: str | None
    gpu: str
    framework: _FrameworkKeys
    capacity_bytes: float
    order: _Order | None
    notes: list[str] | None
    plans: list[_PlanKeys]

class PresetsReport(Report):
    """Every preset."""
    presets: list[_PresetLine]

class PruneReport(Report):
    """What a model loses to meet targets."""
    gpu: str
    model: _ArchitectureShape
    pruned: _ArchitectureShape
    workload: _Workload
    framework: _FrameworkKeys
    basis: list[_Basis]
    choice: Literal["blocks", "uniform"]
    targets: list[_TargetKeys]
    scored: bool
    damage: float
    damage_bound: float
    summed_time_us: float | None
    layers: list[_LayersKeys]
    before: _PrunedStep
    after: _PrunedStep
    changes: list[_PrunedChange]
    tier: Literal["measured", "learned", "transferred", "roofline"]
    tier_shares: Mapping[str, float]
    caveats: list[_SharedWarning]
    notes: list[str]
    config: Mapping[str, Any] | None

class SearchReport(Report):
    """Recommended shapes."""
    gpu: str
    capacity_bytes: float
    request: _RequestKeys
    workload: _Workload
    sharded: bool
    framework: str
    basis: list[_Basis]
    baseline: _BaselineKeys
    server_least_us: float | None
    format_loss: _LossDifference | None
    shapes: list[_ShapeKeys]
    costs_loss: bool | None
    fastest: _FrontPoint
    pareto_front: list[_FrontPoint]
    search: _MethodKeys
    order: _SearchOrder | None
    elsewhere: list[_ElsewhereKeys] | None
    sizes: _SizesKeys | None
    configs: list[Mapping[str, Any]] | None
    no_config: Mapping[str, str] | None

class StepReport(Report):
    """One predicted step of a model."""
    gpu: str
    model: str
    parameters: int
    trained_parameters: int | None
    workload: _Workload
    framework: _FrameworkKeys
    basis: list[_Basis]
    time_us: float
    low_us: float
    high_us: float
    tokens: float
    speculation: _SpeculationKeys | None
    tokens_per_s: float
    tokens_per_s_low: float
    tokens_per_s_high: float
    tokens_per_s_per_gpu: float
    tokens_per_s_of_all_gpus: float
    model_flops: float
    mfu: float
    mfu_full_attention: float
    hfu: float
    gpus: int
    gpus_per_replica: int
    lanes: Mapping[str, _LaneKeys]
    run: _RunKeys | None
    usd_per_million_tokens: float | None
    memory: _MemoryKeys
    offload: _OffloadKeys | None
    tier: Literal["measured", "learned", "transferred", "roofline"]
    tier_shares: Mapping[str, float]
    caveats: list[_SharedWarning]
    notes: list[str] | None
    lines: list[_StepLine]
    rest: list[_RestLine]

class SweepReport(Report):
    """A predicted curve."""
    gpu: str
    subject: str
    dimension: str
    range: _RangeKeys
    first: Mapping[str, Any]
    last: Mapping[str, Any]
    framework: str | None
    basis: list[_Basis]
    alignment_of: str
    alignment_wanted: int
    points: list[_SweepPoint]
    drops_above: float
    drops_of: str
    drops: list[_Drop]
    measured: list[_MeasuredKeys]
    measured_drops: list[_Drop]
    skipped: list[_SkippedKeys]
    caveats: list[_Warning]

class _ArchitectureShape(Record):
    """The dimensions of an architecture and what they add up to."""
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    mlp: str
    vocab: int
    parameters: int
    active_parameters: int | None
    experts: int | None
    top_k: int | None
    moe_d_ff: int | None
    moe_shared_d_ff: int | None
    window: int | None
    window_layers: int | None
    recurrence: str | None
    linear_layers: int | None
    kv_lora_rank: int | None
    kinds: list[_LayerKind] | None

class _BaselineKeys(Record):
    tokens_per_s: float
    tokens_per_s_low: float
    tokens_per_s_high: float
    tokens_per_s_per_gpu: float
    mfu: float
    memory_bytes: float
    shape: _ArchitectureShape
    fits: bool
    stands_in: bool | None

class _Basis(Record):
    """What the numbers of one operator family are based on."""
    family: str
    dtype: str
    stack: str | None
    interval: Literal["this_stack", "any_stack"]

class _BestKeys(Record):
    gpu_time_to_equal_loss: float | None
    gpu_time_to_equal_loss_low: float | None
    gpu_time_to_equal_loss_high: float | None
    shape: _ArchitectureShape
    workload: _Workload
    tokens_per_s_per_gpu: float
    mfu: float
    memory_bytes: float
    gain: float | None
    loss: _LossDifference
    format_loss: _LossDifference | None

class _Change(Record):
    """One dimension that a fix changes."""
    dimension: Literal["layers", "hidden", "heads", "kv_heads", "head_dim", "d_ff", "moe_d_ff", "moe_shared_d_ff", "experts", "top_k", "vocab", "window_layers", "linear_layers", "kv_lora_rank", "batch", "seq", "context", "tp", "cp", "ep", "expert_tp", "pp", "vp", "dp", "zero", "recompute_layers", "microbatches"]
    to: int

class _ComparedKeys(Record):
    """One model on one GPU with its best layout."""
    gpu: str
    model: str
    parameters: int
    format: str | None
    framework: str
    refused: str | None
    layout: _LayoutKeys | None
    tokens_per_s_per_node: float | None
    tokens_per_s_per_watt: float | None
    run: _RunKeys | None

class _ComputeOptimal(Record):
    """The size that is best for the training alone."""
    parameters: int
    shape: _ArchitectureShape
    tokens: float
    gpu_hours: float
    serving: _ServingCost
    cost_over_best: float
    even_at_tokens: float | None

class _Drop(Record):
    """A fall of the rate."""
    value: int
    depth: float

class _ElsewhereKeys(Record):
    """The same search on another GPU or in another number format."""
    gpu: str
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"]
    best: _BestKeys | None
    refused: str | None

class _Faster(Record):
    """A near operator that is predicted faster."""
    limit: Literal["alignment", "waves", "compute", "memory", "launch"]
    changes: list[_Resize]
    time_us: float
    factor: float
    rate_factor: float
    loss_fraction: float

class _Fit(Record):
    """What the constants of a framework were fitted to, and the error on configurations kept out of

    the fit.
    """
    runs_from: str
    runs: int
    configurations: int
    median_ape: float
    mean_ape: float
    p90_ape: float
    coverage_90: float
    groups: list[_FitGroup] | None

class _FitGroup(Record):
    """Runs of one generation of GPUs, and the errors of a fit without their own configuration."""
    generation: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell", "cdna2", "cdna3", "cdna4", "rdna3", "rdna4", "xe2", "other"]
    hybrid: bool | None
    adapters: bool | None
    drafts: bool | None
    gpus: list[str]
    formats: list[str]
    longest_tokens: int
    nodes: int
    runs: int
    configurations: int
    median_ape: float
    mean_ape: float
    p90_ape: float
    coverage_90: float

class _FixKeys(Record):
    """Another shape."""
    changes: list[_Change]
    architecture: _ArchitectureShape
    workload: _Workload
    parameter_change_fraction: float
    predicted: _StepKeys
    gain: _Gain | None
    fixes: list[str]
    breaks: list[str]

class _FrameworkKeys(Record):
    """The framework that runs the step."""
    name: str
    title: str
    assumed: bool
    network_bytes_per_s: float
    fit: _Fit | None
    evidence: str | None

class _FrontPoint(Record):
    gpu_time_to_equal_loss: float | None
    gpu_time_to_equal_loss_low: float | None
    gpu_time_to_equal_loss_high: float | None
    shape: _ArchitectureShape
    layout: _Workload | None
    tokens_per_s_per_gpu: float
    memory_bytes: float
    gain: float | None
    centre_distance: float
    loss: _LossDifference

class _Gain(Record):
    """What another shape gains, as fractions of the GPU time that a token takes as it is: 0.05 = 5 %

    less.
    """
    time_saved_fraction: float
    low_fraction: float
    high_fraction: float
    outlook: Literal["faster", "unclear", "slower"]

class _GpuLine(Record):
    name: str
    title: str
    sm_count: int
    peak_bf16_flops_per_s: float | None
    memory_bandwidth_bytes_per_s: float
    memory_bytes: float
    models: list[str]

class _GraphLine(Record):
    """One operator of a graph."""
    label: str
    op: _Shape
    count: int
    each_us: float
    each_low_us: float
    each_high_us: float
    time_us: float
    share: float
    tflops_per_s: float
    tier: Literal["measured", "learned", "transferred", "roofline"]
    caveats: list[_Warning]

class _GroupErrors(Record):
    """Errors of one group of held-out rows, as fractions."""
    group: str
    n: int
    median_ape: float
    mean_ape: float
    p90_ape: float
    coverage_90: float
    interval_half_width_median: float

class _LaneKeys(Record):
    """The time of one lane and its share of the step."""
    time_us: float
    share: float

class _LatencyKeys(Record):
    """Latencies of a request beside the others, with the ends of their 90 % intervals where the

    framework has one.
    """
    in_flight: int
    waiting: int | None
    ttft_us: float
    ttft_low_us: float | None
    ttft_high_us: float | None
    tpot_us: float | None
    tpot_low_us: float | None
    tpot_high_us: float | None
    ttft_kept_probability: float | None
    tpot_kept_probability: float | None

class _LayerKind(Record):
    """The shape of some layers, where it is not that of the others; what it leaves out, they share."""
    layers: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    window: int | None
    key_values: str | None
    sinks: bool | None
    stride: int | None
    indexed: bool | None
    d_ff: int | None
    experts: bool | None

class _LayersKeys(Record):
    """Layers in a row that keep the same."""
    first: int

class _LayoutKeys(Record):
    """A layout with its prediction."""
    rank: int
    tied: bool
    workload: _Workload
    step: _TrainingStepKeys | None
    request: _LatencyKeys | None
    tokens_per_s_of_all_gpus: float
    tokens_per_s_per_gpu: float
    tokens_per_s_per_gpu_low: float | None
    tokens_per_s_per_gpu_high: float | None
    memory_bytes: float
    usd_per_million_tokens: float | None

class _LimitKeys(Record):
    """Limits of latency, and how likely each has to be kept."""
    ttft_us: float | None
    tpot_us: float | None
    confidence: float

class _LossDifference(Record):
    """What a shape costs in loss against the baseline's proportions at equal parameters and tokens, in

    0.001 nat per token; positive is worse. The figures are absent where they are refused.
    """
    evidence: Literal["inside", "extrapolated", "none", "refused"]
    reasons: list[Literal["beyond_2b", "below_50m", "beyond_200_tokens_a_parameter", "aspect_below_10", "experts_beyond_512", "shape_inside_experts", "latent_attention", "linear_attention", "window", "unmeasured_attention", "aspect_ratio", "mlp_share", "head_dim", "vocabulary"]]
    caveat: str | None
    difference_mnat: float | None
    low_mnat: float | None
    high_mnat: float | None
    recalls_less: bool | None
    parts_mnat: Mapping[str, float]

class _MeasuredKeys(Record):
    value: int
    time_us: float
    tflops_per_s: float
    stack: str

class _MemoryKeys(Record):
    """Memory of the fullest GPU."""
    parts_bytes: Mapping[str, float]
    memory_bytes: float
    capacity_bytes: float
    fits: bool
    verdict: Literal["fits", "tight", "does_not_fit"]
    reserved_bytes: float | None
    peak: Literal["loss", "backward", "update"] | None
    loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None
    bytes_per_gradient: float | None
    remedy: _RemedyKeys | None
    shorter: _RemedyKeys | None

class _MethodKeys(Record):
    """How it was found."""
    method: str
    seed: int | None
    gap: float | None
    lattice_shapes: int
    evaluations: int
    refused: int
    stopped: Literal["exhausted", "iterations", "interrupted"]

class _ModelLine(Record):
    gpu: str
    stack: str
    family: Literal["gemm", "prefill", "bidirectional", "prefill_backward", "decode", "memory", "collective", "experts", "latent_prefill", "absorbed_prefill", "latent_decode", "linear_prefill", "linear_decode", "indexed_prefill", "indexed_decode"]
    dtype: str
    rows: int
    held_out: list[_GroupErrors]
    name: str
    median_ape: float | None
    sources: list[_SourceKeys]
    size_bytes: int

class _Moved(Record):
    """A constant before and after the fit."""
    name: Literal["gemm", "gemm_fp8", "rowwise_over_tensorwise", "nvfp4", "mxfp8_over_fp8", "attention", "attention_backward", "linear_attention", "memory", "launch", "quantize", "cast_us", "accumulate", "experts", "experts_fp8", "nvfp4_experts", "integer_experts", "permute", "biased_activation", "moe_path", "moe_layer_us", "expert_launch_us", "exposed_tp", "exposed_cp", "exposed_pp", "exposed_dp", "exposed_fsdp", "exposed_ep", "exposed_ep_network", "collective_us", "collective_growth", "collective_node_us", "host_us", "layer_us", "prefill_layer_us", "sequence_us", "step_ms", "host_step_ms", "growth_per_doubling", "other_prefills", "queueing", "queueing_growth", "first_token_steps", "first_token_ms", "first_token", "most_sequences"]
    before: float
    value: float
    sd: float

class _NarrowingOperator(Record):
    role: Literal["embedding", "embedding_zero", "position_embedding", "embedding_norm", "embedding_dropout", "attention_norm", "qkv", "query_down", "query_latent_norm", "query_up", "key_value_down", "key_value_latent_norm", "key_value_up", "attention_gate", "query_absorb", "value_absorb", "index_query", "index_key", "index_weights", "index_scores", "index_choice", "key_compression", "indexed_attention", "query_norm", "key_norm", "rotary", "cache_write", "attention", "attention_merge", "attention_score", "attention_mask", "attention_softmax", "attention_dropout", "attention_value", "attention_output_gate", "attention_output_down", "attention_projection", "attention_post_norm", "attention_output_dropout", "attention_residual", "linear_input", "linear_decay", "linear_gate", "linear_convolution", "linear_attention", "linear_norm", "linear_output", "mlp_norm", "mlp_up", "mlp_activation", "mlp_down", "router", "router_softmax", "experts_latent_down", "experts_dispatch", "experts", "experts_up", "experts_activation", "experts_down", "experts_combine", "experts_latent_up", "shared_up", "shared_activation", "shared_down", "shared_gate", "shared_add", "mlp_post_norm", "mlp_output_dropout", "mlp_residual", "further_map", "further_pass", "final_norm", "logits", "loss", "optimizer", "quantize", "gradient_accumulation", "head_accumulation", "autocast", "head_autocast", "adapter", "draft_input", "unpack", "tensor_parallel", "context_parallel", "expert_parallel", "pipeline_parallel", "data_parallel"]
    operator: str
    variance_share: float

class _OffloadKeys(Record):
    """What a GPU keeps in the memory of its host, and how fast it reaches that."""
    kept_bytes: float
    host_bandwidth_bytes_per_s: float
    host_memory_bandwidth_bytes_per_s: float

class _OperatorDiagnosis(Record):
    fix: _Faster | None

class _Order(Record):
    """Errors of predicted ratios between measured layouts of one model, GPU and number of GPUs."""
    tie: float
    half_width: float
    pairs: int
    source: str

class _OutsideKeys(Record):
    """A bound that a relaxed search let a shape leave."""
    bound: Literal["aspect_ratio", "layers", "ffn_ratio_plain", "ffn_ratio_gated", "mlp_attention_ratio", "width_ratio", "head_dim", "heads", "head_width", "kv_group", "latent_head_width", "latent_rank", "vocab_padding", "experts", "expert_share", "expert_width"]
    value: float
    usual: list[float]

class _PlanKeys(Record):
    """The best layouts for one number of GPUs."""
    gpus: int
    refused: str | None
    legal: int
    fitting: int
    predicted: int | None
    memory_share: float
    layouts: list[_LayoutKeys]
    decided_by: Mapping[str, float]
    tried: list[_TriedKeys]
    run: _RunKeys | None

class _PresetLine(Record):
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    mlp: str
    vocab: int
    parameters: int
    active_parameters: int | None
    experts: int | None
    top_k: int | None
    moe_d_ff: int | None
    moe_shared_d_ff: int | None
    window: int | None
    window_layers: int | None
    recurrence: str | None
    linear_layers: int | None
    kv_lora_rank: int | None
    kinds: list[_LayerKind] | None
    aliases: list[str]
    source: str

class _PrunedChange(Record):
    """Equal changes of layers, and what they save together."""
    change: str
    layers: int
    saved_time_us: float
    saved_memory_bytes: float
    removed_parameters: float
    damage: float

class _PrunedStep(Record):
    """A step and what it takes."""
    parameters: int
    time_us: float
    low_us: float
    high_us: float
    tokens_per_s: float
    memory_bytes: float
    fits: bool

class _RangeKeys(Record):
    start: int
    end: int
    step: int | None
    text: str

class _RemedyKeys(Record):
    """A workload that fits."""
    workload: _Workload
    gpus: int
    memory_bytes: float

class _RequestKeys(Record):
    """What was asked for."""
    parameters: int
    count: Literal["total", "non-embedding", "active"]
    tolerance: float
    active_parameters: int | None
    vocab: int
    tied_embeddings: bool
    tokens: float
    objective: Literal["equal-loss", "throughput", "loss", "train-time"]
    budget_gpu_hours: float | None
    budget_usd: float | None
    serve: _ServedLife | None
    target_loss_nats: float | None
    relaxed: list[Literal["aspect_ratio", "layers", "ffn_ratio_plain", "ffn_ratio_gated", "mlp_attention_ratio", "width_ratio", "head_dim", "heads", "head_width", "kv_group", "latent_head_width", "latent_rank", "vocab_padding", "experts", "expert_share", "expert_width"]]
    free: Mapping[str, list[int]]
    free_attention: list[Literal["micro-batch", "tp", "pp", "window", "linear", "latent"]] | None
    linear_shares: list[float] | None
    kv_group: int | None

class _Resize(Record):
    """One size that a near operator changes."""
    size: str
    to: int

class _RestLine(Record):
    """What the time of a step holds besides its operators."""
    role: Literal["fused_into_neighbours", "on_other_stages", "bubble", "host", "overhead", "offload"]
    count: int
    each_us: float
    time_us: float
    share: float

class _RoleGain(Record):
    """How the share of one role changed against the baseline, at equal parameters."""
    role: str
    time_change: float

class _RuleKeys(Record):
    verdict: Literal["met", "broken", "not_applicable"]
    severity: Literal["hard", "advice", "no_gain"] | None
    detail: str
    value: float | None
    wanted: str | None
    id: str
    title: str
    demand: str
    reason: str
    source: str
    fix: _FixKeys | None
    faster: _FixKeys | None
    no_fix: str | None

class _RunKeys(Record):
    """What a whole run takes, with the ends of its 90 % interval."""
    tokens: float
    steps: float
    days: float
    days_low: float
    days_high: float
    gpu_hours: float
    usd: float | None

class _Score(Record):
    """The damage of one block in place of what the model has."""
    layer: int
    part: Literal["attention", "mlp"]
    choice: int
    score: float

class _SearchOrder(Record):
    """What the order of the shapes hangs on."""
    lead: float
    lead_half_width: float
    narrows: list[_NarrowingOperator]
    rival: _SearchRival | None

class _SearchOutcome(Record):
    """What a shape reaches under an objective that is a loss or a time."""
    tokens: float | None
    gpu_hours: float | None
    behind: float
    behind_low: float
    behind_high: float
    wins: float
    beats_best: float
    ties: bool
    loss_nats: Mapping[str, float]
    evidence: Literal["inside", "extrapolated", "none", "refused"]
    reasons: list[Literal["beyond_2b", "below_50m", "beyond_200_tokens_a_parameter", "aspect_below_10", "experts_beyond_512", "shape_inside_experts", "latent_attention", "linear_attention", "window", "unmeasured_attention", "aspect_ratio", "mlp_share", "head_dim", "vocabulary"]]
    serving: _ServingCost | None

class _SearchRival(Record):
    rank: int
    flips: Mapping[str, int]
    stays: list[Literal["layers", "hidden", "heads", "kv_heads", "head_dim", "d_ff", "moe_d_ff", "moe_shared_d_ff", "experts", "top_k", "vocab", "window_layers", "linear_layers", "kv_lora_rank", "batch", "seq", "context", "tp", "cp", "ep", "expert_tp", "pp", "vp", "dp", "zero", "recompute_layers", "microbatches"]]

class _ServedLife(Record):
    """What is served after the training."""
    gpu: str
    tokens: float
    prompt: int
    output: int
    format: str
    limits: _LimitKeys | None
    usd_per_gpu_hour: list[float] | None

class _ServingCost(Record):
    """What serving a model over its life takes."""
    gpu_hours: float
    gpu_hours_low: float
    gpu_hours_high: float
    gpu_hours_per_million_tokens: float
    usd_with_training: float | None
    engine: _LayoutKeys

class _Shape(Record):
    kind: Literal["gemm"]
    m: int
    n: int
    k: int
    batch: int
    layout: Literal["tn", "nn", "nt", "tt"]
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"]

class _ShapeKeys(Record):
    tokens_per_s: float
    tokens_per_s_low: float
    tokens_per_s_high: float
    tokens_per_s_per_gpu: float
    mfu: float
    memory_bytes: float
    gpu_time_to_equal_loss: float | None
    gpu_time_to_equal_loss_low: float | None
    gpu_time_to_equal_loss_high: float | None
    rank: int
    tie_group: int
    shape: _ArchitectureShape
    counted_parameters: int
    parameters_miss: float
    layout: _Workload | None
    gain: float | None
    cost: float
    cost_half_width: float
    nearest_model: str
    nearest_distance: float
    centre_distance: float
    rules_met: list[str]
    rules_broken: list[str]
    outside_usual: list[_OutsideKeys]
    at_limit: Mapping[str, float] | None
    won: list[_RoleGain]
    loss: _LossDifference
    outcome: _SearchOutcome | None
    tier: Literal["measured", "learned", "transferred", "roofline"]
    tier_shares: Mapping[str, float]

class _SharedWarning(Record):
    caveat: Literal["out_of_domain", "other_gpu", "other_dtype", "other_width", "other_layout", "alignment", "alignment_unknown", "batched", "head_size", "unfused", "mask", "few_queries", "window", "backward_from_forward", "trained_from_served", "other_recurrence", "other_recurrence_decode", "ratio_of_recurrences", "timed_with_host", "other_provider", "other_layer", "backward_assumed", "physics", "not_learned", "offload", "unseen_gpu", "unseen_length", "unseen_format", "unseen_nodes", "adapters", "drafts", "adapters_on_ada"]
    text: str
    time_share: float

class _SizeKeys(Record):
    """The best shape of one size."""
    parameters: int
    shape: _ArchitectureShape
    tokens_per_s_per_gpu: float
    outcome: _SearchOutcome

class _SizesKeys(Record):
    """Sizes under one objective."""
    parameters_low: float
    parameters_high: float
    points: list[_SizeKeys]
    compute_optimal: _ComputeOptimal | None

class _SkippedKeys(Record):
    reason: str
    points: int
    values: list[int]

class _SourceKeys(Record):
    """Where timings come from."""
    gpu: str
    stack: str
    source: str
    licence: str
    rows: int

class _SpeculationKeys(Record):
    """What drafts of tokens bring and take."""
    acceptance: float
    is_assumed: bool
    tokens_per_step: float
    time_per_token_us: float
    draft_share: float

class _StepKeys(Record):
    """A predicted step in short."""
    framework: str
    framework_is_assumed: bool | None
    time_us: float
    low_us: float
    high_us: float
    tokens_per_s: float
    fits: bool
    tier: Literal["measured", "learned", "transferred", "roofline"]
    tier_shares: Mapping[str, float]

class _StepLine(Record):
    """One operator of the step."""
    label: str
    role: str
    phase: Literal["forward", "recompute", "grad_input", "grad_weight", "backward", "draft", "update"]
    op: _Shape
    count: int
    each_us: float
    each_low_us: float
    each_high_us: float
    alone_us: float
    time_us: float
    share: float
    flops: float
    bytes: float
    tflops_per_s: float
    tier: Literal["measured", "learned", "transferred", "roofline"]
    caveats: list[Literal["out_of_domain", "other_gpu", "other_dtype", "other_width", "other_layout", "alignment", "alignment_unknown", "batched", "head_size", "unfused", "mask", "few_queries", "window", "backward_from_forward", "trained_from_served", "other_recurrence", "other_recurrence_decode", "ratio_of_recurrences", "timed_with_host", "other_provider", "other_layer", "backward_assumed", "physics", "not_learned", "offload", "unseen_gpu", "unseen_length", "unseen_format", "unseen_nodes", "adapters", "drafts", "adapters_on_ada"]]

class _SweepPoint(Record):
    tokens_per_s: float | None
    tokens_per_s_low: float | None
    tokens_per_s_high: float | None
    mfu: float | None
    bandwidth_fraction: float | None
    parameters: int | None
    head_dim: int | None
    memory_bytes: float | None
    fits: bool | None
    server_least_us: float | None
    tier_shares: Mapping[str, float] | None
    value: int
    alignment: int | None
    time_us: float
    low_us: float
    high_us: float
    tflops_per_s: float
    tier: Literal["measured", "learned", "transferred", "roofline"]
    caveats: list[Literal["out_of_domain", "other_gpu", "other_dtype", "other_width", "other_layout", "alignment", "alignment_unknown", "batched", "head_size", "unfused", "mask", "few_queries", "window", "backward_from_forward", "trained_from_served", "other_recurrence", "other_recurrence_decode", "ratio_of_recurrences", "timed_with_host", "other_provider", "other_layer", "backward_assumed", "physics", "not_learned", "offload", "unseen_gpu", "unseen_length", "unseen_format", "unseen_nodes", "adapters", "drafts", "adapters_on_ada"]]

class _TargetKeys(Record):
    """A target and what is reached of it."""
    measure: Literal["latency", "memory", "throughput"]
    ratio: float
    reached_ratio: float

class _TrainingStepKeys(Record):
    """A training step."""
    time_us: float
    low_us: float
    high_us: float
    mfu: float
    lanes: Mapping[str, _LaneKeys]
    tier_shares: Mapping[str, float]

class _TriedKeys(Record):
    """One layout that fits."""
    memory_bytes: float
    tokens_per_s_per_gpu: float

class _UnknownNodes(Record):
    """Nodes of one type that are not timed, and why."""
    label: str
    nodes: int
    reason: str

class _Warning(Record):
    """A warning about a number."""
    caveat: Literal["out_of_domain", "other_gpu", "other_dtype", "other_width", "other_layout", "alignment", "alignment_unknown", "batched", "head_size", "unfused", "mask", "few_queries", "window", "backward_from_forward", "trained_from_served", "other_recurrence", "other_recurrence_decode", "ratio_of_recurrences", "timed_with_host", "other_provider", "other_layer", "backward_assumed", "physics", "not_learned", "offload", "unseen_gpu", "unseen_length", "unseen_format", "unseen_nodes", "adapters", "drafts", "adapters_on_ada"]
    text: str

class _WaveCount(Record):
    """How a GEMM fills the GPU in tiles of 128 x 256."""
    tile_m: int
    tile_n: int
    tiles: int
    waves: float
    tile_fill: float
    last_wave_fill: float

class _Workload(Record):
    """One step of one model replica and how it is spread over GPUs."""
    mode: Literal["train", "prefill", "decode"]
    batch: int
    seq: int
    context: int
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"]
    recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"]
    tp: int
    cp: int
    ep: int
    expert_tp: int
    pp: int
    vp: int
    dp: int
    zero: int
    recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"]
    recompute_layers: int
    attention: Literal["flash", "unfused"]
    sequence_parallel: bool
    microbatches: int
    offload: Literal["none", "optimizer", "activations", "all"] | None
    optimizer_states: Literal["fp32", "bf16"] | None
    optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None
    optimizer_in_backward: bool | None
    gradient_dtype: Literal["auto", "fp32", "bf16"] | None
    loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None
    autocast: bool | None
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None
    speculate: int | None
    draft: Literal["mtp", "eagle", "ngram"] | None
    acceptance: float | None
    router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None
    lora: int | None
    lora_targets: str | None
    base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None

@overload
def predict_gemm(  # type: ignore[overload-overlap]
    m: int,
    n: int,
    k: int,
    *,
    batch: int | None = None,
    layout: Literal["tn", "nn", "nt", "tt"] | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> OperatorReport:
    """The time of a GEMM (m, k) x (k, n).

    m: Rows of the left operand and of the product.
    n: Columns of the right operand and of the product.
    k: The reduction: columns of the left operand, rows of the right one.
    batch: Independent GEMMs in one call.
    layout: Which operand is stored transposed, in cuBLAS terms; a linear layer runs forward as tn,
        its input gradient as nn, its weight gradient as nt.
    dtype: Number format of the operands [default: bf16, or fp16 on a GPU without units for it].
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

@overload
def predict_gemm(
    m: int | Sequence[int] | _Array,
    n: int | Sequence[int] | _Array,
    k: int | Sequence[int] | _Array,
    *,
    batch: int | Sequence[int] | _Array | None = None,
    layout: Literal["tn", "nn", "nt", "tt"] | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> Times:
    """The time of a GEMM (m, k) x (k, n).

    m: Rows of the left operand and of the product.
    n: Columns of the right operand and of the product.
    k: The reduction: columns of the left operand, rows of the right one.
    batch: Independent GEMMs in one call.
    layout: Which operand is stored transposed, in cuBLAS terms; a linear layer runs forward as tn,
        its input gradient as nn, its weight gradient as nt.
    dtype: Number format of the operands [default: bf16, or fp16 on a GPU without units for it].
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

@overload
def predict_attention(  # type: ignore[overload-overlap]
    batch: int,
    heads: int,
    seq_q: int,
    head_dim: int,
    *,
    kv_heads: int | None = None,
    seq_kv: int | None = None,
    value_dim: int | None = None,
    causal: bool | None = None,
    window: int | None = None,
    pass_: Literal["forward", "backward"] | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> OperatorReport:
    """The time of a fused (flash) attention; arrays as in `predict_gemm`.

    batch: Sequences.
    heads: Query heads.
    kv_heads: Key/value heads, a divisor of the query heads [default: as many as query heads].
    seq_q: Queries per sequence; 1 is a decoding step.
    seq_kv: Keys per sequence, cached ones included [default: as many as queries].
    head_dim: Width of a query and key head.
    value_dim: Width of a value head; multi-head latent attention has another than of queries and
        keys [default: as head_dim].
    causal: Each query sees only the keys up to its own position.
    window: The most keys that each query sees, a sliding window; 0 is all.
    pass_: Forward or backward.
    dtype: Number format of queries, keys and values [default: bf16, or fp16 on a GPU without units
        for it].
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

@overload
def predict_attention(
    batch: int | Sequence[int] | _Array,
    heads: int | Sequence[int] | _Array,
    seq_q: int | Sequence[int] | _Array,
    head_dim: int | Sequence[int] | _Array,
    *,
    kv_heads: int | Sequence[int] | _Array | None = None,
    seq_kv: int | Sequence[int] | _Array | None = None,
    value_dim: int | Sequence[int] | _Array | None = None,
    causal: bool | None = None,
    window: int | Sequence[int] | _Array | None = None,
    pass_: Literal["forward", "backward"] | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> Times:
    """The time of a fused (flash) attention; arrays as in `predict_gemm`.

    batch: Sequences.
    heads: Query heads.
    kv_heads: Key/value heads, a divisor of the query heads [default: as many as query heads].
    seq_q: Queries per sequence; 1 is a decoding step.
    seq_kv: Keys per sequence, cached ones included [default: as many as queries].
    head_dim: Width of a query and key head.
    value_dim: Width of a value head; multi-head latent attention has another than of queries and
        keys [default: as head_dim].
    causal: Each query sees only the keys up to its own position.
    window: The most keys that each query sees, a sliding window; 0 is all.
    pass_: Forward or backward.
    dtype: Number format of queries, keys and values [default: bf16, or fp16 on a GPU without units
        for it].
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

def predict_graph(
    graph: str | PathLike[str] | bytes | Sequence[Mapping[str, Any]],
    *,
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    causal: bool | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> GraphReport:
    """The operators of a graph: the path of an .onnx or .jsonl file, ONNX bytes, JSON lines or dicts.

    name: What the answer calls the graph, such as the name of its file [default: graph].
    dims: The size of a symbolic dimension of the model; once for each.
    dtype: Number format of all operators [default: what the graph says].
    causal: Masks that the graph adds to the scores of attention hide what follows a query, so half
        of it is computed; in a list, attention that does not say `causal` is.
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

def predict_module(
    module: Any,
    inputs: Any,
    backward: bool | None = None,
    *,
    name: str | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    causal: bool | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> GraphReport:
    """The kernels of one call of a `torch.nn.Module`, as PyTorch launches them in eager mode.

    name: What the answer calls the graph, such as the name of its file [default: graph].
    dtype: Number format of all operators [default: what the graph says].
    causal: Masks that the graph adds to the scores of attention hide what follows a query, so half
        of it is computed; in a list, attention that does not say `causal` is.
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

class Model:
    """A transformer: a preset, the dict of a config.json, or the path of one."""
    @classmethod
    def from_config(cls, config: Any) -> Model:
        """Read a preset's name, the path of a config.json or of its folder, its dict, or a config of

        transformers.
        """
    @property
    def name(self) -> str:
        """What reports call it."""
    @property
    def parameters(self) -> int:
        """How many it has."""
    def predict(
        self,
        *,
        layers: int | None = None,
        hidden: int | None = None,
        heads: int | None = None,
        kv_heads: int | None = None,
        d_ff: int | None = None,
        vocab: int | None = None,
        tokens: float | str | None = None,
        usd_per_gpu_hour: float | None = None,
        mode: Literal["train", "prefill", "decode"] | None = None,
        batch: int | None = None,
        seq: int | None = None,
        context: int | None = None,
        dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
        recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
        tp: int | None = None,
        cp: int | None = None,
        ep: int | None = None,
        expert_tp: int | None = None,
        pp: int | None = None,
        vp: int | None = None,
        dp: int | None = None,
        zero: int | None = None,
        recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
        recompute_layers: int | None = None,
        attention: Literal["flash", "unfused"] | None = None,
        sequence_parallel: bool | None = None,
        microbatches: int | None = None,
        offload: Literal["none", "optimizer", "activations", "all"] | None = None,
        optimizer_states: Literal["fp32", "bf16"] | None = None,
        optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
        optimizer_in_backward: bool | None = None,
        gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
        loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
        autocast: bool | None = None,
        kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
        speculate: int | None = None,
        draft: Literal["mtp", "eagle", "ngram"] | None = None,
        acceptance: float | None = None,
        router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
        lora: int | None = None,
        lora_targets: str | None = None,
        base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
        gpu: str | None = None,
        model: str | None = None,
        framework: str | Mapping[str, Any] | None = None,
        enforce_eager: bool | None = None,
        network_gbit_per_s: float | None = None,
        link_gbyte_per_s: float | None = None,
        host_gbyte_per_s: float | None = None,
        any_stack: bool | None = None,
    ) -> StepReport:
        """The time of one step, operator by operator.

        layers: Transformer layers.
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key/value heads, a divisor of the query heads.
        d_ff: Inner width of the MLP, or of one expert.
        vocab: Rows of the token embedding.
        tokens: Tokens of a whole training run, such as 15T: how many days and GPU-hours it takes.
        usd_per_gpu_hour: Price of one GPU for an hour, in US dollars: what the run, or a million
            tokens, costs.
        mode: Training step, prefill of prompts, or decoding of one token a sequence.
        batch: Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
        seq: Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the
            position table holds].
        context: Cached tokens per sequence [default: 4096, or what the position table leaves in decode,
            else 0].
        dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
            w4a16 [default: bf16, or fp16 on a GPU without units for it; when serving a quantized
            checkpoint, as that is stored].
        recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
            served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
            checkpoint, as that is stored].
        tp: Tensor-parallel ranks.
        cp: Context-parallel ranks, which share every sequence.
        ep: Expert-parallel ranks, which hold different routed experts.
        expert_tp: Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
        pp: Pipeline stages.
        vp: Virtual pipeline stages a GPU, which interleave.
        dp: Data-parallel replicas.
        zero: ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
        recompute: What the backward pass recomputes.
        recompute_layers: Layers of a stage that recompute; 0 means all [default: 0].
        attention: Fused or unfused attention.
        sequence_parallel: Shard norms and residual adds over the tensor-parallel ranks too.
        microbatches: Micro-batches per step: they fill the pipeline and accumulate gradients.
        offload: What training keeps in host memory: optimizer states, with Adam on the CPU,
            activations, or both.
        optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
            moments alone.
        optimizer: What updates the weights.
        optimizer_in_backward: Update each weight as soon as its gradient is computed, which is freed
            then (LOMO, torchtune's `optimizer_in_bwd`).
        gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
            Megatron.
        loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
        autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
            use them.
        kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
            of the activations.
        speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
            or the steps of EAGLE; 0 for none [default: 0].
        draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
            text, which take no time of the GPU [default: mtp of models with experts or such a layer,
            else eagle].
        acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
            [default: 0.8 of MTP layers, 0.62 of EAGLE].
        router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
            busy experts are replicated (EPLB).
        lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
        lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
            (PEFT's `target_modules`).
        base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
            bitsandbytes, int4 as GPTQ and AWQ store them.
        gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
            of another; a model of one GPU names its own [default: h200].
        model: A built-in model by name, on the command line also the path of a trained one [default:
            the model of the GPU].
        framework: What runs whole steps: a built-in framework, on the command line also the path of a
            calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
            [default: megatron in training, vllm in serving]. It also says whose kernel a single
            operator is, if it is given.
        enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
            (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
        network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
            of the GPU's usual server].
        link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
            cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
        host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
            [default: that of the GPU's usual server].
        any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
            that answers alone. A step has the wider one of its framework and its operators, a planned
            engine that of its framework.
        """
    def check(
        self,
        *,
        layers: int | None = None,
        hidden: int | None = None,
        heads: int | None = None,
        kv_heads: int | None = None,
        d_ff: int | None = None,
        vocab: int | None = None,
        mode: Literal["train", "prefill", "decode"] | None = None,
        batch: int | None = None,
        seq: int | None = None,
        context: int | None = None,
        dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
        recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
        tp: int | None = None,
        cp: int | None = None,
        ep: int | None = None,
        expert_tp: int | None = None,
        pp: int | None = None,
        vp: int | None = None,
        dp: int | None = None,
        zero: int | None = None,
        recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
        recompute_layers: int | None = None,
        attention: Literal["flash", "unfused"] | None = None,
        sequence_parallel: bool | None = None,
        microbatches: int | None = None,
        offload: Literal["none", "optimizer", "activations", "all"] | None = None,
        optimizer_states: Literal["fp32", "bf16"] | None = None,
        optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
        optimizer_in_backward: bool | None = None,
        gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
        loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
        autocast: bool | None = None,
        kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
        speculate: int | None = None,
        draft: Literal["mtp", "eagle", "ngram"] | None = None,
        acceptance: float | None = None,
        router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
        lora: int | None = None,
        lora_targets: str | None = None,
        base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
        gpu: str | None = None,
        model: str | None = None,
        framework: str | Mapping[str, Any] | None = None,
        enforce_eager: bool | None = None,
        network_gbit_per_s: float | None = None,
        link_gbyte_per_s: float | None = None,
        host_gbyte_per_s: float | None = None,
        any_stack: bool | None = None,
    ) -> CheckReport:
        """The sizing rules on this shape: what is broken, what it costs, what fixes it.

        layers: Transformer layers.
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key/value heads, a divisor of the query heads.
        d_ff: Inner width of the MLP, or of one expert.
        vocab: Rows of the token embedding.
        mode: Training step, prefill of prompts, or decoding of one token a sequence.
        batch: Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
        seq: Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the
            position table holds].
        context: Cached tokens per sequence [default: 4096, or what the position table leaves in decode,
            else 0].
        dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
            w4a16 [default: bf16, or fp16 on a GPU without units for it; when serving a quantized
            checkpoint, as that is stored].
        recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
            served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
            checkpoint, as that is stored].
        tp: Tensor-parallel ranks.
        cp: Context-parallel ranks, which share every sequence.
        ep: Expert-parallel ranks, which hold different routed experts.
        expert_tp: Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
        pp: Pipeline stages.
        vp: Virtual pipeline stages a GPU, which interleave.
        dp: Data-parallel replicas.
        zero: ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
        recompute: What the backward pass recomputes.
        recompute_layers: Layers of a stage that recompute; 0 means all [default: 0].
        attention: Fused or unfused attention.
        sequence_parallel: Shard norms and residual adds over the tensor-parallel ranks too.
        microbatches: Micro-batches per step: they fill the pipeline and accumulate gradients.
        offload: What training keeps in host memory: optimizer states, with Adam on the CPU,
            activations, or both.
        optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
            moments alone.
        optimizer: What updates the weights.
        optimizer_in_backward: Update each weight as soon as its gradient is computed, which is freed
            then (LOMO, torchtune's `optimizer_in_bwd`).
        gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
            Megatron.
        loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
        autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
            use them.
        kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
            of the activations.
        speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
            or the steps of EAGLE; 0 for none [default: 0].
        draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
            text, which take no time of the GPU [default: mtp of models with experts or such a layer,
            else eagle].
        acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
            [default: 0.8 of MTP layers, 0.62 of EAGLE].
        router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
            busy experts are replicated (EPLB).
        lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
        lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
            (PEFT's `target_modules`).
        base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
            bitsandbytes, int4 as GPTQ and AWQ store them.
        gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
            of another; a model of one GPU names its own [default: h200].
        model: A built-in model by name, on the command line also the path of a trained one [default:
            the model of the GPU].
        framework: What runs whole steps: a built-in framework, on the command line also the path of a
            calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
            [default: megatron in training, vllm in serving]. It also says whose kernel a single
            operator is, if it is given.
        enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
            (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
        network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
            of the GPU's usual server].
        link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
            cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
        host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
            [default: that of the GPU's usual server].
        any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
            that answers alone. A step has the wider one of its framework and its operators, a planned
            engine that of its framework.
        """
    def sweep(
        self,
        *,
        layers: int | str | None = None,
        hidden: int | str | None = None,
        heads: int | str | None = None,
        kv_heads: int | str | None = None,
        d_ff: int | str | None = None,
        vocab: int | str | None = None,
        mode: Literal["train", "prefill", "decode"] | None = None,
        batch: int | str | None = None,
        seq: int | str | None = None,
        context: int | str | None = None,
        dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
        recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
        tp: int | str | None = None,
        cp: int | str | None = None,
        ep: int | str | None = None,
        expert_tp: int | str | None = None,
        pp: int | str | None = None,
        vp: int | str | None = None,
        dp: int | str | None = None,
        zero: int | None = None,
        recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
        recompute_layers: int | str | None = None,
        attention: Literal["flash", "unfused"] | None = None,
        sequence_parallel: bool | None = None,
        microbatches: int | str | None = None,
        offload: Literal["none", "optimizer", "activations", "all"] | None = None,
        optimizer_states: Literal["fp32", "bf16"] | None = None,
        optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
        optimizer_in_backward: bool | None = None,
        gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
        loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
        autocast: bool | None = None,
        kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
        speculate: int | str | None = None,
        draft: Literal["mtp", "eagle", "ngram"] | None = None,
        acceptance: float | None = None,
        router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
        lora: int | str | None = None,
        lora_targets: str | None = None,
        base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
        gpu: str | None = None,
        model: str | None = None,
        framework: str | Mapping[str, Any] | None = None,
        enforce_eager: bool | None = None,
        network_gbit_per_s: float | None = None,
        link_gbyte_per_s: float | None = None,
        host_gbyte_per_s: float | None = None,
        any_stack: bool | None = None,
    ) -> SweepReport:
        """The time of one step along the one option that is a range START:END:STEP.

        layers: Transformer layers.
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key/value heads, a divisor of the query heads.
        d_ff: Inner width of the MLP, or of one expert.
        vocab: Rows of the token embedding.
        mode: Training step, prefill of prompts, or decoding of one token a sequence.
        batch: Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
        seq: Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the
            position table holds].
        context: Cached tokens per sequence [default: 4096, or what the position table leaves in decode,
            else 0].
        dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
            w4a16 [default: bf16, or fp16 on a GPU without units for it; when serving a quantized
            checkpoint, as that is stored].
        recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
            served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
            checkpoint, as that is stored].
        tp: Tensor-parallel ranks.
        cp: Context-parallel ranks, which share every sequence.
        ep: Expert-parallel ranks, which hold different routed experts.
        expert_tp: Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
        pp: Pipeline stages.
        vp: Virtual pipeline stages a GPU, which interleave.
        dp: Data-parallel replicas.
        zero: ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
        recompute: What the backward pass recomputes.
        recompute_layers: Layers of a stage that recompute; 0 means all [default: 0].
        attention: Fused or unfused attention.
        sequence_parallel: Shard norms and residual adds over the tensor-parallel ranks too.
        microbatches: Micro-batches per step: they fill the pipeline and accumulate gradients.
        offload: What training keeps in host memory: optimizer states, with Adam on the CPU,
            activations, or both.
        optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
            moments alone.
        optimizer: What updates the weights.
        optimizer_in_backward: Update each weight as soon as its gradient is computed, which is freed
            then (LOMO, torchtune's `optimizer_in_bwd`).
        gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
            Megatron.
        loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
        autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
            use them.
        kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
            of the activations.
        speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
            or the steps of EAGLE; 0 for none [default: 0].
        draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
            text, which take no time of the GPU [default: mtp of models with experts or such a layer,
            else eagle].
        acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
            [default: 0.8 of MTP layers, 0.62 of EAGLE].
        router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
            busy experts are replicated (EPLB).
        lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
        lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
            (PEFT's `target_modules`).
        base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
            bitsandbytes, int4 as GPTQ and AWQ store them.
        gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
            of another; a model of one GPU names its own [default: h200].
        model: A built-in model by name, on the command line also the path of a trained one [default:
            the model of the GPU].
        framework: What runs whole steps: a built-in framework, on the command line also the path of a
            calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
            [default: megatron in training, vllm in serving]. It also says whose kernel a single
            operator is, if it is given.
        enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
            (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
        network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
            of the GPU's usual server].
        link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
            cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
        host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
            [default: that of the GPU's usual server].
        any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
            that answers alone. A step has the wider one of its framework and its operators, a planned
            engine that of its framework.
        """
    def plan(
        self,
        gpus: int | str | None = None,
        *,
        mode: Literal["train", "prefill", "decode"] | None = None,
        global_batch: float | str | None = None,
        seq: int | None = None,
        cached_tokens: int | None = None,
        output: int | None = None,
        concurrency: int | None = None,
        ttft_ms: float | None = None,
        tpot_ms: float | None = None,
        confidence: float | None = None,
        dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
        recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
        attention: Literal["flash", "unfused"] | None = None,
        optimizer_states: Literal["fp32", "bf16"] | None = None,
        optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
        gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
        loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
        autocast: bool | None = None,
        lora: int | None = None,
        lora_targets: str | None = None,
        base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
        kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
        speculate: int | None = None,
        draft: Literal["mtp", "eagle", "ngram"] | None = None,
        acceptance: float | None = None,
        router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
        tp: int | None = None,
        cp: int | None = None,
        ep: int | None = None,
        pp: int | None = None,
        vp: int | None = None,
        batch: int | None = None,
        zero: int | None = None,
        recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
        offload: Literal["none", "optimizer", "activations", "all"] | None = None,
        memory_share: float | None = None,
        top: int | None = None,
        tokens: float | str | None = None,
        usd_per_gpu_hour: float | str | None = None,
        gpu: str | None = None,
        model: str | None = None,
        framework: str | Mapping[str, Any] | None = None,
        enforce_eager: bool | None = None,
        network_gbit_per_s: float | None = None,
        link_gbyte_per_s: float | None = None,
        host_gbyte_per_s: float | None = None,
        any_stack: bool | None = None,
    ) -> PlanReport:
        """The best layouts over a number of GPUs, or over each of a range such as "8:1024".

        gpus: All GPUs, or a range in doublings such as 8:1024 for the strong scaling of one batch
            [default: when serving the fewest of 1, 2, 4, … that do].
        mode: What the GPUs do: train, serve requests (decode), or nothing but prompts (prefill).
        global_batch: Tokens of a training step over all GPUs, such as 4M [default: 4M, rounded to a
            whole number of sequences a GPU].
        seq: Tokens per sequence; of a prompt when serving [default: 4096 or what the position table
            holds].
        cached_tokens: Tokens of a prompt that are cached from earlier requests (prefix caching), so
            that the prompt pass computes the others alone [default: 0].
        output: Tokens that a request generates [default: 512].
        concurrency: Requests sent to all engines at once, such as 50 users; those that they have no
            room for wait [default: the most within the limits].
        ttft_ms: The longest time to the first token of a request, in ms.
        tpot_ms: The longest time per further token of a request, in ms.
        confidence: The least probability with which the times keep their limits [default: 0.5: the
            expected times keep them].
        dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
            w4a16 [default: bf16; when serving a quantized checkpoint, as that is stored].
        recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
            served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
            checkpoint, as that is stored].
        attention: Fused or unfused attention.
        optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
            moments alone.
        optimizer: What updates the weights.
        gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
            Megatron.
        loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
        autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
            use them.
        lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
        lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
            (PEFT's `target_modules`).
        base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
            bitsandbytes, int4 as GPTQ and AWQ store them.
        kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
            of the activations.
        speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
            or the steps of EAGLE; 0 for none [default: 0].
        draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
            text, which take no time of the GPU [default: mtp of models with experts or such a layer,
            else eagle].
        acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
            [default: 0.8 of MTP layers, 0.62 of EAGLE].
        router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
            busy experts are replicated (EPLB).
        tp: Fix the number of tensor-parallel ranks.
        cp: Fix the number of context-parallel ranks.
        ep: Fix the number of expert-parallel ranks.
        pp: Fix the number of pipeline stages.
        vp: Fix the number of virtual stages a GPU.
        batch: Fix the number of sequences a micro-batch, or of requests that run on each engine; beside
            concurrency the most.
        zero: Keep this ZeRO stage [default: those that the framework runs].
        recompute: Keep this recomputation [default: the fastest that fits].
        offload: Keep this in host memory [default: nothing, or what it takes where nothing fits].
        memory_share: Share of a GPU's memory that a layout takes at most [default: 0.88 in training,
            0.9 when serving].
        top: Layouts to report.
        tokens: Tokens of the whole run, such as 15T: how many days and GPU-hours it takes.
        usd_per_gpu_hour: Price of one GPU for an hour, in US dollars: one for all GPUs, or one for each
            such as h100=2.5,b200=5.
        gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
            of another; a model of one GPU names its own [default: h200].
        model: A built-in model by name, on the command line also the path of a trained one [default:
            the model of the GPU].
        framework: What runs whole steps: a built-in framework, on the command line also the path of a
            calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
            [default: megatron in training, vllm in serving]. It also says whose kernel a single
            operator is, if it is given.
        enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
            (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
        network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
            of the GPU's usual server].
        link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
            cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
        host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
            [default: that of the GPU's usual server].
        any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
            that answers alone. A step has the wider one of its framework and its operators, a planned
            engine that of its framework.
        """
    def compare(
        self,
        gpus: int | str | None = None,
        *,
        mode: Literal["train", "prefill", "decode"] | None = None,
        global_batch: float | str | None = None,
        seq: int | None = None,
        cached_tokens: int | None = None,
        output: int | None = None,
        concurrency: int | None = None,
        ttft_ms: float | None = None,
        tpot_ms: float | None = None,
        confidence: float | None = None,
        dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
        recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
        attention: Literal["flash", "unfused"] | None = None,
        optimizer_states: Literal["fp32", "bf16"] | None = None,
        optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
        gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
        loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
        autocast: bool | None = None,
        lora: int | None = None,
        lora_targets: str | None = None,
        base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
        kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
        speculate: int | None = None,
        draft: Literal["mtp", "eagle", "ngram"] | None = None,
        acceptance: float | None = None,
        router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
        tp: int | None = None,
        cp: int | None = None,
        ep: int | None = None,
        pp: int | None = None,
        vp: int | None = None,
        batch: int | None = None,
        zero: int | None = None,
        recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
        offload: Literal["none", "optimizer", "activations", "all"] | None = None,
        memory_share: float | None = None,
        top: int | None = None,
        tokens: float | str | None = None,
        usd_per_gpu_hour: float | str | None = None,
        gpu: str | Sequence[str] | None = None,
        model: str | None = None,
        framework: str | Mapping[str, Any] | None = None,
        enforce_eager: bool | None = None,
        network_gbit_per_s: float | None = None,
        link_gbyte_per_s: float | None = None,
        host_gbyte_per_s: float | None = None,
        any_stack: bool | None = None,
    ) -> CompareReport:
        """The best layout on each GPU that `gpu` names, with commas between them, or on "all".

        gpus: All GPUs, or a range in doublings such as 8:1024 for the strong scaling of one batch
            [default: when serving the fewest of 1, 2, 4, … that do].
        mode: What the GPUs do: train, serve requests (decode), or nothing but prompts (prefill).
        global_batch: Tokens of a training step over all GPUs, such as 4M [default: 4M, rounded to a
            whole number of sequences a GPU].
        seq: Tokens per sequence; of a prompt when serving [default: 4096 or what the position table
            holds].
        cached_tokens: Tokens of a prompt that are cached from earlier requests (prefix caching), so
            that the prompt pass computes the others alone [default: 0].
        output: Tokens that a request generates [default: 512].
        concurrency: Requests sent to all engines at once, such as 50 users; those that they have no
            room for wait [default: the most within the limits].
        ttft_ms: The longest time to the first token of a request, in ms.
        tpot_ms: The longest time per further token of a request, in ms.
        confidence: The least probability with which the times keep their limits [default: 0.5: the
            expected times keep them].
        dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
            w4a16 [default: bf16; when serving a quantized checkpoint, as that is stored].
        recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
            served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
            checkpoint, as that is stored].
        attention: Fused or unfused attention.
        optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
            moments alone.
        optimizer: What updates the weights.
        gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
            Megatron.
        loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
        autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
            use them.
        lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
        lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
            (PEFT's `target_modules`).
        base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
            bitsandbytes, int4 as GPTQ and AWQ store them.
        kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
            of the activations.
        speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
            or the steps of EAGLE; 0 for none [default: 0].
        draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
            text, which take no time of the GPU [default: mtp of models with experts or such a layer,
            else eagle].
        acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
            [default: 0.8 of MTP layers, 0.62 of EAGLE].
        router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
            busy experts are replicated (EPLB).
        tp: Fix the number of tensor-parallel ranks.
        cp: Fix the number of context-parallel ranks.
        ep: Fix the number of expert-parallel ranks.
        pp: Fix the number of pipeline stages.
        vp: Fix the number of virtual stages a GPU.
        batch: Fix the number of sequences a micro-batch, or of requests that run on each engine; beside
            concurrency the most.
        zero: Keep this ZeRO stage [default: those that the framework runs].
        recompute: Keep this recomputation [default: the fastest that fits].
        offload: Keep this in host memory [default: nothing, or what it takes where nothing fits].
        memory_share: Share of a GPU's memory that a layout takes at most [default: 0.88 in training,
            0.9 when serving].
        top: Layouts to report.
        tokens: Tokens of the whole run, such as 15T: how many days and GPU-hours it takes.
        usd_per_gpu_hour: Price of one GPU for an hour, in US dollars: one for all GPUs, or one for each
            such as h100=2.5,b200=5.
        gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
            of another; a model of one GPU names its own [default: h200].
        model: A built-in model by name, on the command line also the path of a trained one [default:
            the model of the GPU].
        framework: What runs whole steps: a built-in framework, on the command line also the path of a
            calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
            [default: megatron in training, vllm in serving]. It also says whose kernel a single
            operator is, if it is given.
        enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
            (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
        network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
            of the GPU's usual server].
        link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
            cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
        host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
            [default: that of the GPU's usual server].
        any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
            that answers alone. A step has the wider one of its framework and its operators, a planned
            engine that of its framework.
        """
    def search(
        self,
        *,
        params: float | str | None = None,
        objective: Literal["equal-loss", "throughput", "loss", "train-time"] | None = None,
        budget: str | None = None,
        tokens: float | str | None = None,
        target_loss: float | None = None,
        serve: str | None = None,
        serve_gpu: str | None = None,
        serve_dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
        prompt: int | None = None,
        output: int | None = None,
        ttft_ms: float | None = None,
        tpot_ms: float | None = None,
        confidence: float | None = None,
        usd_per_gpu_hour: float | str | None = None,
        count: Literal["total", "non-embedding", "active"] | None = None,
        tolerance: float | None = None,
        mlp: Literal["gelu", "swiglu"] | None = None,
        vocab: int | None = None,
        tied_embeddings: bool | None = None,
        free: Sequence[Literal["micro-batch", "tp", "pp", "window", "linear", "latent"]] | None = None,
        also_gpus: Sequence[str] | None = None,
        also_dtypes: Sequence[Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"]] | None = None,
        linear_share: Sequence[float] | None = None,
        linear: Literal["gated_delta_net", "kimi_delta", "mamba2"] | None = None,
        relax: Sequence[Literal["aspect_ratio", "layers", "ffn_ratio_plain", "ffn_ratio_gated", "mlp_attention_ratio", "width_ratio", "head_dim", "heads", "head_width", "kv_group", "latent_head_width", "latent_rank", "vocab_padding", "experts", "expert_share", "expert_width"]] | None = None,
        layers: int | None = None,
        hidden: int | None = None,
        heads: int | None = None,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        d_ff: int | None = None,
        active_params: float | str | None = None,
        experts: int | None = None,
        top_k: int | None = None,
        shared_experts: int | None = None,
        dense_layers: int | None = None,
        window_layers: int | None = None,
        window: int | None = None,
        kv_lora_rank: int | None = None,
        top: int | None = None,
        exhaustive: bool | None = None,
        seed: int | None = None,
        gpus: int | None = None,
        global_batch: float | str | None = None,
        no_sharding: bool | None = None,
        export: bool | None = None,
        mode: Literal["train", "prefill", "decode"] | None = None,
        batch: int | None = None,
        seq: int | None = None,
        context: int | None = None,
        dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
        recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
        tp: int | None = None,
        cp: int | None = None,
        ep: int | None = None,
        expert_tp: int | None = None,
        pp: int | None = None,
        vp: int | None = None,
        dp: int | None = None,
        zero: int | None = None,
        recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
        recompute_layers: int | None = None,
        attention: Literal["flash", "unfused"] | None = None,
        sequence_parallel: bool | None = None,
        microbatches: int | None = None,
        offload: Literal["none", "optimizer", "activations", "all"] | None = None,
        optimizer_states: Literal["fp32", "bf16"] | None = None,
        optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
        optimizer_in_backward: bool | None = None,
        gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
        loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
        autocast: bool | None = None,
        kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
        speculate: int | None = None,
        draft: Literal["mtp", "eagle", "ngram"] | None = None,
        acceptance: float | None = None,
        router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
        lora: int | None = None,
        lora_targets: str | None = None,
        base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
        gpu: str | None = None,
        model: str | None = None,
        framework: str | Mapping[str, Any] | None = None,
        enforce_eager: bool | None = None,
        network_gbit_per_s: float | None = None,
        link_gbyte_per_s: float | None = None,
        host_gbyte_per_s: float | None = None,
        any_stack: bool | None = None,
    ) -> SearchReport:
        """The fastest shapes with as many parameters and the same parts as this model.

        params: Parameters wanted, such as 6.7B, 350M, 6.7e9 or 6700000000 [default: as many as like
            has].
        objective: What to look for: the most tokens per second that cost no loss against the baseline,
            the most whatever they cost, the lowest loss for a budget or a number of tokens, or the
            shortest time to a loss. Without params the last two find the size, too [default: loss with
            budget, train-time with target_loss, else equal-loss].
        budget: GPU time of one training run, with serve of training and serving, such as `1000 gpu-
            hours` or `512 gpus 30 days`, or its price, such as `2M usd`, for the objective loss.
        tokens: Tokens that losses are compared after; for the objective train-time those after which
            the baseline has the loss to reach [default: 20 a parameter].
        target_loss: Loss to reach for the objective train-time, in nats per token on the scale of the
            law gemstones-annealed; other laws take what they say of the usual model that has it after
            20 tokens a parameter.
        serve: Tokens that the model generates after its training, such as `2T tokens/year for 2 years`:
            budget and time are then those of training and serving together.
        serve_gpu: The GPU that serves [default: that of the training].
        serve_dtype: Number format of serving [default: that of the training].
        prompt: Tokens of a served prompt [default: 4096].
        output: Tokens that a request generates [default: 512].
        ttft_ms: The longest time to the first token of a request, in ms.
        tpot_ms: The longest time per further token of a request, in ms.
        confidence: The least probability with which the times keep their limits [default: 0.5: the
            expected times keep them].
        usd_per_gpu_hour: Price of one GPU for an hour, in US dollars: one for training and serving, or
            one for each such as h100=2.5,h200=3.5.
        count: What params counts: all parameters, those of the layers and the final norm, or those that
            a token meets.
        tolerance: Largest miss of params, as a fraction.
        mlp: Plain (gelu) or gated (swiglu) MLP [default: as in like, else swiglu].
        vocab: Tokens of the vocabulary, which the search pads [default: as in like or the model that is
            compared with, else 128256, or 49152 below 300M parameters].
        tied_embeddings: Whether head and embedding are one matrix [default: as in like, else true below
            4.2B parameters].
        free: Vary these too: micro-batches in powers of two, tensor-parallel ranks and pipeline stages
            up to 8, the share of layers with a sliding window or with linear attention, latent
            attention; the fastest of each kind of attention is in the answer.
        also_gpus: Search on these GPUs, too, in every format that is asked for: the best shape of each
            is listed.
        also_dtypes: Search in these number formats, too.
        linear_share: Shares of the layers with linear attention to choose from, such as 0.75 or
            0,0.5,0.75: the fastest of each is in the answer [default: as in like, else 0; with linear
            in free 0,0.5,0.75,0.875].
        linear: Kind of linear attention [default: as in like, else gated_delta_net].
        relax: Let shapes leave the usual limits of these bounds, as far as the widest ones in
            data/search-bounds.toml.
        layers: Fix the number of layers.
        hidden: Keep this hidden size.
        heads: Fix the number of query heads, also one that 4 does not divide.
        kv_heads: Fix the number of key/value heads.
        head_dim: Keep this head size, also one that is not usual.
        d_ff: Keep this MLP width; in a mixture of experts the width of one expert.
        active_params: Search mixtures of experts in which a token meets this many parameters, such as
            3B; missed by at most five times the tolerance [default: the same share as in like].
        experts: Search mixtures of experts with this many routed experts a layer.
        top_k: Search mixtures of experts in which a token visits this many routed experts.
        shared_experts: Search mixtures of experts with this many shared experts a layer, each as wide
            as a routed one [default: as in like, else 0].
        dense_layers: Search mixtures of experts with this many leading layers without experts [default:
            as in like, else 0].
        window_layers: Keep this many layers with a sliding window; 0 has none [default: the same share
            as in like, else 0].
        window: Keys that a query of those layers sees, itself included [default: as in like, else
            1024].
        kv_lora_rank: Keep latent attention of this rank; 0 has none. Query latent and head sizes keep
            their proportions to it [default: as in like, else 0].
        top: Shapes to report.
        exhaustive: Look at every shape of the lattice instead of annealing.
        seed: Equal seeds give equal reports.
        gpus: All GPUs of a training run: the layout is that of a plan over them [default: the fewest
            that hold the training states where they do not fit one].
        global_batch: Tokens of a training step over all GPUs of the plan, such as 4M [default: 4M].
        no_sharding: Take dp, zero and recompute as they are, even if no training state fits; otherwise
            states that do not fit one GPU are spread by a plan, and the report says how.
        export: Answer with the config.json of each shape too; then every shape can be written as one.
        mode: Training step, prefill of prompts, or decoding of one token a sequence.
        batch: Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
        seq: Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the
            position table holds].
        context: Cached tokens per sequence [default: 4096, or what the position table leaves in decode,
            else 0].
        dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
            w4a16 [default: bf16, or fp16 on a GPU without units for it; when serving a quantized
            checkpoint, as that is stored].
        recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
            served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
            checkpoint, as that is stored].
        tp: Tensor-parallel ranks.
        cp: Context-parallel ranks, which share every sequence.
        ep: Expert-parallel ranks, which hold different routed experts.
        expert_tp: Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
        pp: Pipeline stages.
        vp: Virtual pipeline stages a GPU, which interleave.
        dp: Data-parallel replicas.
        zero: ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
        recompute: What the backward pass recomputes.
        recompute_layers: Layers of a stage that recompute; 0 means all [default: 0].
        attention: Fused or unfused attention.
        sequence_parallel: Shard norms and residual adds over the tensor-parallel ranks too.
        microbatches: Micro-batches per step: they fill the pipeline and accumulate gradients.
        offload: What training keeps in host memory: optimizer states, with Adam on the CPU,
            activations, or both.
        optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
            moments alone.
        optimizer: What updates the weights.
        optimizer_in_backward: Update each weight as soon as its gradient is computed, which is freed
            then (LOMO, torchtune's `optimizer_in_bwd`).
        gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
            Megatron.
        loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
        autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
            use them.
        kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
            of the activations.
        speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
            or the steps of EAGLE; 0 for none [default: 0].
        draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
            text, which take no time of the GPU [default: mtp of models with experts or such a layer,
            else eagle].
        acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
            [default: 0.8 of MTP layers, 0.62 of EAGLE].
        router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
            busy experts are replicated (EPLB).
        lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
        lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
            (PEFT's `target_modules`).
        base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
            bitsandbytes, int4 as GPTQ and AWQ store them.
        gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
            of another; a model of one GPU names its own [default: h200].
        model: A built-in model by name, on the command line also the path of a trained one [default:
            the model of the GPU].
        framework: What runs whole steps: a built-in framework, on the command line also the path of a
            calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
            [default: megatron in training, vllm in serving]. It also says whose kernel a single
            operator is, if it is given.
        enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
            (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
        network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
            of the GPU's usual server].
        link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
            cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
        host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
            [default: that of the GPU's usual server].
        any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
            that answers alone. A step has the wider one of its framework and its operators, a planned
            engine that of its framework.
        """

def search(
    params: float | str | None = None,
    *,
    objective: Literal["equal-loss", "throughput", "loss", "train-time"] | None = None,
    budget: str | None = None,
    tokens: float | str | None = None,
    target_loss: float | None = None,
    serve: str | None = None,
    serve_gpu: str | None = None,
    serve_dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    prompt: int | None = None,
    output: int | None = None,
    ttft_ms: float | None = None,
    tpot_ms: float | None = None,
    confidence: float | None = None,
    usd_per_gpu_hour: float | str | None = None,
    count: Literal["total", "non-embedding", "active"] | None = None,
    tolerance: float | None = None,
    like: str | Mapping[str, Any] | None = None,
    mlp: Literal["gelu", "swiglu"] | None = None,
    vocab: int | None = None,
    tied_embeddings: bool | None = None,
    free: Sequence[Literal["micro-batch", "tp", "pp", "window", "linear", "latent"]] | None = None,
    also_gpus: Sequence[str] | None = None,
    also_dtypes: Sequence[Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"]] | None = None,
    linear_share: Sequence[float] | None = None,
    linear: Literal["gated_delta_net", "kimi_delta", "mamba2"] | None = None,
    relax: Sequence[Literal["aspect_ratio", "layers", "ffn_ratio_plain", "ffn_ratio_gated", "mlp_attention_ratio", "width_ratio", "head_dim", "heads", "head_width", "kv_group", "latent_head_width", "latent_rank", "vocab_padding", "experts", "expert_share", "expert_width"]] | None = None,
    layers: int | None = None,
    hidden: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    d_ff: int | None = None,
    active_params: float | str | None = None,
    experts: int | None = None,
    top_k: int | None = None,
    shared_experts: int | None = None,
    dense_layers: int | None = None,
    window_layers: int | None = None,
    window: int | None = None,
    kv_lora_rank: int | None = None,
    top: int | None = None,
    exhaustive: bool | None = None,
    seed: int | None = None,
    gpus: int | None = None,
    global_batch: float | str | None = None,
    no_sharding: bool | None = None,
    export: bool | None = None,
    mode: Literal["train", "prefill", "decode"] | None = None,
    batch: int | None = None,
    seq: int | None = None,
    context: int | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
    tp: int | None = None,
    cp: int | None = None,
    ep: int | None = None,
    expert_tp: int | None = None,
    pp: int | None = None,
    vp: int | None = None,
    dp: int | None = None,
    zero: int | None = None,
    recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
    recompute_layers: int | None = None,
    attention: Literal["flash", "unfused"] | None = None,
    sequence_parallel: bool | None = None,
    microbatches: int | None = None,
    offload: Literal["none", "optimizer", "activations", "all"] | None = None,
    optimizer_states: Literal["fp32", "bf16"] | None = None,
    optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
    optimizer_in_backward: bool | None = None,
    gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
    loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
    autocast: bool | None = None,
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
    speculate: int | None = None,
    draft: Literal["mtp", "eagle", "ngram"] | None = None,
    acceptance: float | None = None,
    router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
    lora: int | None = None,
    lora_targets: str | None = None,
    base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> SearchReport:
    """The fastest architectures for a number of parameters, such as "6.7B".

    params: Parameters wanted, such as 6.7B, 350M, 6.7e9 or 6700000000 [default: as many as like
        has].
    objective: What to look for: the most tokens per second that cost no loss against the baseline,
        the most whatever they cost, the lowest loss for a budget or a number of tokens, or the
        shortest time to a loss. Without params the last two find the size, too [default: loss with
        budget, train-time with target_loss, else equal-loss].
    budget: GPU time of one training run, with serve of training and serving, such as `1000 gpu-
        hours` or `512 gpus 30 days`, or its price, such as `2M usd`, for the objective loss.
    tokens: Tokens that losses are compared after; for the objective train-time those after which
        the baseline has the loss to reach [default: 20 a parameter].
    target_loss: Loss to reach for the objective train-time, in nats per token on the scale of the
        law gemstones-annealed; other laws take what they say of the usual model that has it after
        20 tokens a parameter.
    serve: Tokens that the model generates after its training, such as `2T tokens/year for 2 years`:
        budget and time are then those of training and serving together.
    serve_gpu: The GPU that serves [default: that of the training].
    serve_dtype: Number format of serving [default: that of the training].
    prompt: Tokens of a served prompt [default: 4096].
    output: Tokens that a request generates [default: 512].
    ttft_ms: The longest time to the first token of a request, in ms.
    tpot_ms: The longest time per further token of a request, in ms.
    confidence: The least probability with which the times keep their limits [default: 0.5: the
        expected times keep them].
    usd_per_gpu_hour: Price of one GPU for an hour, in US dollars: one for training and serving, or
        one for each such as h100=2.5,h200=3.5.
    count: What params counts: all parameters, those of the layers and the final norm, or those that
        a token meets.
    tolerance: Largest miss of params, as a fraction.
    like: Start from this model, a preset or a config.json: its norms, positions, biases, kind of
        MLP and vocabulary stay, and gains are reported against it [default: the published model of
        this kind within a quarter of the size, if there is one].
    mlp: Plain (gelu) or gated (swiglu) MLP [default: as in like, else swiglu].
    vocab: Tokens of the vocabulary, which the search pads [default: as in like or the model that is
        compared with, else 128256, or 49152 below 300M parameters].
    tied_embeddings: Whether head and embedding are one matrix [default: as in like, else true below
        4.2B parameters].
    free: Vary these too: micro-batches in powers of two, tensor-parallel ranks and pipeline stages
        up to 8, the share of layers with a sliding window or with linear attention, latent
        attention; the fastest of each kind of attention is in the answer.
    also_gpus: Search on these GPUs, too, in every format that is asked for: the best shape of each
        is listed.
    also_dtypes: Search in these number formats, too.
    linear_share: Shares of the layers with linear attention to choose from, such as 0.75 or
        0,0.5,0.75: the fastest of each is in the answer [default: as in like, else 0; with linear
        in free 0,0.5,0.75,0.875].
    linear: Kind of linear attention [default: as in like, else gated_delta_net].
    relax: Let shapes leave the usual limits of these bounds, as far as the widest ones in
        data/search-bounds.toml.
    layers: Fix the number of layers.
    hidden: Keep this hidden size.
    heads: Fix the number of query heads, also one that 4 does not divide.
    kv_heads: Fix the number of key/value heads.
    head_dim: Keep this head size, also one that is not usual.
    d_ff: Keep this MLP width; in a mixture of experts the width of one expert.
    active_params: Search mixtures of experts in which a token meets this many parameters, such as
        3B; missed by at most five times the tolerance [default: the same share as in like].
    experts: Search mixtures of experts with this many routed experts a layer.
    top_k: Search mixtures of experts in which a token visits this many routed experts.
    shared_experts: Search mixtures of experts with this many shared experts a layer, each as wide
        as a routed one [default: as in like, else 0].
    dense_layers: Search mixtures of experts with this many leading layers without experts [default:
        as in like, else 0].
    window_layers: Keep this many layers with a sliding window; 0 has none [default: the same share
        as in like, else 0].
    window: Keys that a query of those layers sees, itself included [default: as in like, else
        1024].
    kv_lora_rank: Keep latent attention of this rank; 0 has none. Query latent and head sizes keep
        their proportions to it [default: as in like, else 0].
    top: Shapes to report.
    exhaustive: Look at every shape of the lattice instead of annealing.
    seed: Equal seeds give equal reports.
    gpus: All GPUs of a training run: the layout is that of a plan over them [default: the fewest
        that hold the training states where they do not fit one].
    global_batch: Tokens of a training step over all GPUs of the plan, such as 4M [default: 4M].
    no_sharding: Take dp, zero and recompute as they are, even if no training state fits; otherwise
        states that do not fit one GPU are spread by a plan, and the report says how.
    export: Answer with the config.json of each shape too; then every shape can be written as one.
    mode: Training step, prefill of prompts, or decoding of one token a sequence.
    batch: Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
    seq: Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the
        position table holds].
    context: Cached tokens per sequence [default: 4096, or what the position table leaves in decode,
        else 0].
    dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
        w4a16 [default: bf16, or fp16 on a GPU without units for it; when serving a quantized
        checkpoint, as that is stored].
    recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
        served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
        checkpoint, as that is stored].
    tp: Tensor-parallel ranks.
    cp: Context-parallel ranks, which share every sequence.
    ep: Expert-parallel ranks, which hold different routed experts.
    expert_tp: Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
    pp: Pipeline stages.
    vp: Virtual pipeline stages a GPU, which interleave.
    dp: Data-parallel replicas.
    zero: ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    recompute: What the backward pass recomputes.
    recompute_layers: Layers of a stage that recompute; 0 means all [default: 0].
    attention: Fused or unfused attention.
    sequence_parallel: Shard norms and residual adds over the tensor-parallel ranks too.
    microbatches: Micro-batches per step: they fill the pipeline and accumulate gradients.
    offload: What training keeps in host memory: optimizer states, with Adam on the CPU,
        activations, or both.
    optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
        moments alone.
    optimizer: What updates the weights.
    optimizer_in_backward: Update each weight as soon as its gradient is computed, which is freed
        then (LOMO, torchtune's `optimizer_in_bwd`).
    gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
        Megatron.
    loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
    autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
        use them.
    kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
        of the activations.
    speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
        or the steps of EAGLE; 0 for none [default: 0].
    draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
        text, which take no time of the GPU [default: mtp of models with experts or such a layer,
        else eagle].
    acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
        [default: 0.8 of MTP layers, 0.62 of EAGLE].
    router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
        busy experts are replicated (EPLB).
    lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
    lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
        (PEFT's `target_modules`).
    base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
        bitsandbytes, int4 as GPTQ and AWQ store them.
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

def search_from(
    from_: str | Mapping[str, Any],
    target: str | Sequence[str],
    *,
    choice: Literal["blocks", "uniform"] | None = None,
    scores: Sequence[_Score] | None = None,
    export: bool | None = None,
    mode: Literal["train", "prefill", "decode"] | None = None,
    batch: int | None = None,
    seq: int | None = None,
    context: int | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
    tp: int | None = None,
    cp: int | None = None,
    ep: int | None = None,
    expert_tp: int | None = None,
    pp: int | None = None,
    vp: int | None = None,
    dp: int | None = None,
    zero: int | None = None,
    recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
    recompute_layers: int | None = None,
    attention: Literal["flash", "unfused"] | None = None,
    sequence_parallel: bool | None = None,
    microbatches: int | None = None,
    offload: Literal["none", "optimizer", "activations", "all"] | None = None,
    optimizer_states: Literal["fp32", "bf16"] | None = None,
    optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
    optimizer_in_backward: bool | None = None,
    gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
    loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
    autocast: bool | None = None,
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
    speculate: int | None = None,
    draft: Literal["mtp", "eagle", "ngram"] | None = None,
    acceptance: float | None = None,
    router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
    lora: int | None = None,
    lora_targets: str | None = None,
    base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> PruneReport:
    """What a model loses to meet targets such as "0.6x-latency" or ["0.6x-latency", "0.5x-memory"].

    from_: The model that loses parts of its layers, in place of a search for a new one: a preset or
        a config.json.
    target: What the step of --from becomes: a multiple of its latency, its memory or its throughput
        with the same batch, such as 0.6x-latency; of several all are met.
    choice: What --from may lose: attention, key/value heads and MLP width of each layer by itself,
        or the same width of all layers, and whole ones.
    scores: The damage of each block in place of that of the model; blocks without a score are not
        chosen [default: the share of all parameters that its part has, times the square of the
        share of the part that goes].
    export: Answer with the config.json of what is left, too: of blocks for llama models alone (as
        Nemotron-NAS).
    mode: Training step, prefill of prompts, or decoding of one token a sequence.
    batch: Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
    seq: Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the
        position table holds].
    context: Cached tokens per sequence [default: 4096, or what the position table leaves in decode,
        else 0].
    dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
        w4a16 [default: bf16, or fp16 on a GPU without units for it; when serving a quantized
        checkpoint, as that is stored].
    recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
        served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
        checkpoint, as that is stored].
    tp: Tensor-parallel ranks.
    cp: Context-parallel ranks, which share every sequence.
    ep: Expert-parallel ranks, which hold different routed experts.
    expert_tp: Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
    pp: Pipeline stages.
    vp: Virtual pipeline stages a GPU, which interleave.
    dp: Data-parallel replicas.
    zero: ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    recompute: What the backward pass recomputes.
    recompute_layers: Layers of a stage that recompute; 0 means all [default: 0].
    attention: Fused or unfused attention.
    sequence_parallel: Shard norms and residual adds over the tensor-parallel ranks too.
    microbatches: Micro-batches per step: they fill the pipeline and accumulate gradients.
    offload: What training keeps in host memory: optimizer states, with Adam on the CPU,
        activations, or both.
    optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
        moments alone.
    optimizer: What updates the weights.
    optimizer_in_backward: Update each weight as soon as its gradient is computed, which is freed
        then (LOMO, torchtune's `optimizer_in_bwd`).
    gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
        Megatron.
    loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
    autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
        use them.
    kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
        of the activations.
    speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
        or the steps of EAGLE; 0 for none [default: 0].
    draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
        text, which take no time of the GPU [default: mtp of models with experts or such a layer,
        else eagle].
    acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
        [default: 0.8 of MTP layers, 0.62 of EAGLE].
    router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
        busy experts are replicated (EPLB).
    lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
    lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
        (PEFT's `target_modules`).
    base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
        bitsandbytes, int4 as GPTQ and AWQ store them.
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

def check(
    architecture: str | PathLike[str] | dict[str, Any],
    *,
    layers: int | None = None,
    hidden: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    d_ff: int | None = None,
    vocab: int | None = None,
    mode: Literal["train", "prefill", "decode"] | None = None,
    batch: int | None = None,
    seq: int | None = None,
    context: int | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
    tp: int | None = None,
    cp: int | None = None,
    ep: int | None = None,
    expert_tp: int | None = None,
    pp: int | None = None,
    vp: int | None = None,
    dp: int | None = None,
    zero: int | None = None,
    recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
    recompute_layers: int | None = None,
    attention: Literal["flash", "unfused"] | None = None,
    sequence_parallel: bool | None = None,
    microbatches: int | None = None,
    offload: Literal["none", "optimizer", "activations", "all"] | None = None,
    optimizer_states: Literal["fp32", "bf16"] | None = None,
    optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
    optimizer_in_backward: bool | None = None,
    gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
    loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
    autocast: bool | None = None,
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
    speculate: int | None = None,
    draft: Literal["mtp", "eagle", "ngram"] | None = None,
    acceptance: float | None = None,
    router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
    lora: int | None = None,
    lora_targets: str | None = None,
    base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> CheckReport:
    """The sizing rules on a model: what is broken, what it costs, what fixes it.

    layers: Transformer layers.
    hidden: Width of the residual stream.
    heads: Query heads.
    kv_heads: Key/value heads, a divisor of the query heads.
    d_ff: Inner width of the MLP, or of one expert.
    vocab: Rows of the token embedding.
    mode: Training step, prefill of prompts, or decoding of one token a sequence.
    batch: Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
    seq: Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the
        position table holds].
    context: Cached tokens per sequence [default: 4096, or what the position table leaves in decode,
        else 0].
    dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
        w4a16 [default: bf16, or fp16 on a GPU without units for it; when serving a quantized
        checkpoint, as that is stored].
    recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
        served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
        checkpoint, as that is stored].
    tp: Tensor-parallel ranks.
    cp: Context-parallel ranks, which share every sequence.
    ep: Expert-parallel ranks, which hold different routed experts.
    expert_tp: Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
    pp: Pipeline stages.
    vp: Virtual pipeline stages a GPU, which interleave.
    dp: Data-parallel replicas.
    zero: ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    recompute: What the backward pass recomputes.
    recompute_layers: Layers of a stage that recompute; 0 means all [default: 0].
    attention: Fused or unfused attention.
    sequence_parallel: Shard norms and residual adds over the tensor-parallel ranks too.
    microbatches: Micro-batches per step: they fill the pipeline and accumulate gradients.
    offload: What training keeps in host memory: optimizer states, with Adam on the CPU,
        activations, or both.
    optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
        moments alone.
    optimizer: What updates the weights.
    optimizer_in_backward: Update each weight as soon as its gradient is computed, which is freed
        then (LOMO, torchtune's `optimizer_in_bwd`).
    gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
        Megatron.
    loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
    autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
        use them.
    kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
        of the activations.
    speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
        or the steps of EAGLE; 0 for none [default: 0].
    draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
        text, which take no time of the GPU [default: mtp of models with experts or such a layer,
        else eagle].
    acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
        [default: 0.8 of MTP layers, 0.62 of EAGLE].
    router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
        busy experts are replicated (EPLB).
    lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
    lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
        (PEFT's `target_modules`).
    base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
        bitsandbytes, int4 as GPTQ and AWQ store them.
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

def plan(
    architecture: str | PathLike[str] | dict[str, Any],
    gpus: int | str | None = None,
    *,
    mode: Literal["train", "prefill", "decode"] | None = None,
    global_batch: float | str | None = None,
    seq: int | None = None,
    cached_tokens: int | None = None,
    output: int | None = None,
    concurrency: int | None = None,
    ttft_ms: float | None = None,
    tpot_ms: float | None = None,
    confidence: float | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
    attention: Literal["flash", "unfused"] | None = None,
    optimizer_states: Literal["fp32", "bf16"] | None = None,
    optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
    gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
    loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
    autocast: bool | None = None,
    lora: int | None = None,
    lora_targets: str | None = None,
    base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
    speculate: int | None = None,
    draft: Literal["mtp", "eagle", "ngram"] | None = None,
    acceptance: float | None = None,
    router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
    tp: int | None = None,
    cp: int | None = None,
    ep: int | None = None,
    pp: int | None = None,
    vp: int | None = None,
    batch: int | None = None,
    zero: int | None = None,
    recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
    offload: Literal["none", "optimizer", "activations", "all"] | None = None,
    memory_share: float | None = None,
    top: int | None = None,
    tokens: float | str | None = None,
    usd_per_gpu_hour: float | str | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> PlanReport:
    """The best layouts of a model over a number of GPUs, or over each of a range such as "8:1024".

    gpus: All GPUs, or a range in doublings such as 8:1024 for the strong scaling of one batch
        [default: when serving the fewest of 1, 2, 4, … that do].
    mode: What the GPUs do: train, serve requests (decode), or nothing but prompts (prefill).
    global_batch: Tokens of a training step over all GPUs, such as 4M [default: 4M, rounded to a
        whole number of sequences a GPU].
    seq: Tokens per sequence; of a prompt when serving [default: 4096 or what the position table
        holds].
    cached_tokens: Tokens of a prompt that are cached from earlier requests (prefix caching), so
        that the prompt pass computes the others alone [default: 0].
    output: Tokens that a request generates [default: 512].
    concurrency: Requests sent to all engines at once, such as 50 users; those that they have no
        room for wait [default: the most within the limits].
    ttft_ms: The longest time to the first token of a request, in ms.
    tpot_ms: The longest time per further token of a request, in ms.
    confidence: The least probability with which the times keep their limits [default: 0.5: the
        expected times keep them].
    dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
        w4a16 [default: bf16; when serving a quantized checkpoint, as that is stored].
    recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
        served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
        checkpoint, as that is stored].
    attention: Fused or unfused attention.
    optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
        moments alone.
    optimizer: What updates the weights.
    gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
        Megatron.
    loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
    autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
        use them.
    lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
    lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
        (PEFT's `target_modules`).
    base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
        bitsandbytes, int4 as GPTQ and AWQ store them.
    kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
        of the activations.
    speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
        or the steps of EAGLE; 0 for none [default: 0].
    draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
        text, which take no time of the GPU [default: mtp of models with experts or such a layer,
        else eagle].
    acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
        [default: 0.8 of MTP layers, 0.62 of EAGLE].
    router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
        busy experts are replicated (EPLB).
    tp: Fix the number of tensor-parallel ranks.
    cp: Fix the number of context-parallel ranks.
    ep: Fix the number of expert-parallel ranks.
    pp: Fix the number of pipeline stages.
    vp: Fix the number of virtual stages a GPU.
    batch: Fix the number of sequences a micro-batch, or of requests that run on each engine; beside
        concurrency the most.
    zero: Keep this ZeRO stage [default: those that the framework runs].
    recompute: Keep this recomputation [default: the fastest that fits].
    offload: Keep this in host memory [default: nothing, or what it takes where nothing fits].
    memory_share: Share of a GPU's memory that a layout takes at most [default: 0.88 in training,
        0.9 when serving].
    top: Layouts to report.
    tokens: Tokens of the whole run, such as 15T: how many days and GPU-hours it takes.
    usd_per_gpu_hour: Price of one GPU for an hour, in US dollars: one for all GPUs, or one for each
        such as h100=2.5,b200=5.
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

def compare(
    architecture: str | PathLike[str] | dict[str, Any] | Sequence[str],
    gpus: int | str | None = None,
    *,
    mode: Literal["train", "prefill", "decode"] | None = None,
    global_batch: float | str | None = None,
    seq: int | None = None,
    cached_tokens: int | None = None,
    output: int | None = None,
    concurrency: int | None = None,
    ttft_ms: float | None = None,
    tpot_ms: float | None = None,
    confidence: float | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
    attention: Literal["flash", "unfused"] | None = None,
    optimizer_states: Literal["fp32", "bf16"] | None = None,
    optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
    gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
    loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
    autocast: bool | None = None,
    lora: int | None = None,
    lora_targets: str | None = None,
    base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
    speculate: int | None = None,
    draft: Literal["mtp", "eagle", "ngram"] | None = None,
    acceptance: float | None = None,
    router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
    tp: int | None = None,
    cp: int | None = None,
    ep: int | None = None,
    pp: int | None = None,
    vp: int | None = None,
    batch: int | None = None,
    zero: int | None = None,
    recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
    offload: Literal["none", "optimizer", "activations", "all"] | None = None,
    memory_share: float | None = None,
    top: int | None = None,
    tokens: float | str | None = None,
    usd_per_gpu_hour: float | str | None = None,
    gpu: str | Sequence[str] | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> CompareReport:
    """The best layout of a model, or of each of a list of names, on each GPU that `gpu` names, or on

    "all".
    gpus: All GPUs, or a range in doublings such as 8:1024 for the strong scaling of one batch
        [default: when serving the fewest of 1, 2, 4, … that do].
    mode: What the GPUs do: train, serve requests (decode), or nothing but prompts (prefill).
    global_batch: Tokens of a training step over all GPUs, such as 4M [default: 4M, rounded to a
        whole number of sequences a GPU].
    seq: Tokens per sequence; of a prompt when serving [default: 4096 or what the position table
        holds].
    cached_tokens: Tokens of a prompt that are cached from earlier requests (prefix caching), so
        that the prompt pass computes the others alone [default: 0].
    output: Tokens that a request generates [default: 512].
    concurrency: Requests sent to all engines at once, such as 50 users; those that they have no
        room for wait [default: the most within the limits].
    ttft_ms: The longest time to the first token of a request, in ms.
    tpot_ms: The longest time per further token of a request, in ms.
    confidence: The least probability with which the times keep their limits [default: 0.5: the
        expected times keep them].
    dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
        w4a16 [default: bf16; when serving a quantized checkpoint, as that is stored].
    recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
        served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
        checkpoint, as that is stored].
    attention: Fused or unfused attention.
    optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
        moments alone.
    optimizer: What updates the weights.
    gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
        Megatron.
    loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
    autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
        use them.
    lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
    lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
        (PEFT's `target_modules`).
    base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
        bitsandbytes, int4 as GPTQ and AWQ store them.
    kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
        of the activations.
    speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
        or the steps of EAGLE; 0 for none [default: 0].
    draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
        text, which take no time of the GPU [default: mtp of models with experts or such a layer,
        else eagle].
    acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
        [default: 0.8 of MTP layers, 0.62 of EAGLE].
    router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
        busy experts are replicated (EPLB).
    tp: Fix the number of tensor-parallel ranks.
    cp: Fix the number of context-parallel ranks.
    ep: Fix the number of expert-parallel ranks.
    pp: Fix the number of pipeline stages.
    vp: Fix the number of virtual stages a GPU.
    batch: Fix the number of sequences a micro-batch, or of requests that run on each engine; beside
        concurrency the most.
    zero: Keep this ZeRO stage [default: those that the framework runs].
    recompute: Keep this recomputation [default: the fastest that fits].
    offload: Keep this in host memory [default: nothing, or what it takes where nothing fits].
    memory_share: Share of a GPU's memory that a layout takes at most [default: 0.88 in training,
        0.9 when serving].
    top: Layouts to report.
    tokens: Tokens of the whole run, such as 15T: how many days and GPU-hours it takes.
    usd_per_gpu_hour: Price of one GPU for an hour, in US dollars: one for all GPUs, or one for each
        such as h100=2.5,b200=5.
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

@overload
def sweep(
    kind: Literal["gemm"],
    *,
    m: int | str,
    n: int | str,
    k: int | str,
    batch: int | str | None = None,
    layout: Literal["tn", "nn", "nt", "tt"] | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> SweepReport:
    """The time of a "gemm", an "attention" or a "model" along the one option that is a range.

    m: Rows of the left operand and of the product.
    n: Columns of the right operand and of the product.
    k: The reduction: columns of the left operand, rows of the right one.
    batch: Independent GEMMs in one call.
    layout: Which operand is stored transposed, in cuBLAS terms; a linear layer runs forward as tn,
        its input gradient as nn, its weight gradient as nt.
    dtype: Number format of the operands [default: bf16, or fp16 on a GPU without units for it].
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

@overload
def sweep(
    kind: Literal["attention"],
    *,
    batch: int | str,
    heads: int | str,
    kv_heads: int | str | None = None,
    seq_q: int | str,
    seq_kv: int | str | None = None,
    head_dim: int | str,
    value_dim: int | str | None = None,
    causal: bool | None = None,
    window: int | str | None = None,
    pass_: Literal["forward", "backward"] | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> SweepReport:
    """The time of a "gemm", an "attention" or a "model" along the one option that is a range.

    batch: Sequences.
    heads: Query heads.
    kv_heads: Key/value heads, a divisor of the query heads [default: as many as query heads].
    seq_q: Queries per sequence; 1 is a decoding step.
    seq_kv: Keys per sequence, cached ones included [default: as many as queries].
    head_dim: Width of a query and key head.
    value_dim: Width of a value head; multi-head latent attention has another than of queries and
        keys [default: as head_dim].
    causal: Each query sees only the keys up to its own position.
    window: The most keys that each query sees, a sliding window; 0 is all.
    pass_: Forward or backward.
    dtype: Number format of queries, keys and values [default: bf16, or fp16 on a GPU without units
        for it].
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

@overload
def sweep(
    kind: Literal["model"],
    *,
    architecture: str | PathLike[str] | dict[str, Any],
    layers: int | str | None = None,
    hidden: int | str | None = None,
    heads: int | str | None = None,
    kv_heads: int | str | None = None,
    d_ff: int | str | None = None,
    vocab: int | str | None = None,
    mode: Literal["train", "prefill", "decode"] | None = None,
    batch: int | str | None = None,
    seq: int | str | None = None,
    context: int | str | None = None,
    dtype: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "w8a16", "w4a16", "sparse_bf16", "sparse_fp8"] | None = None,
    recipe: Literal["tensorwise", "rowwise", "mxfp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "sparse_2_4"] | None = None,
    tp: int | str | None = None,
    cp: int | str | None = None,
    ep: int | str | None = None,
    expert_tp: int | str | None = None,
    pp: int | str | None = None,
    vp: int | str | None = None,
    dp: int | str | None = None,
    zero: int | None = None,
    recompute: Literal["none", "selective", "pointwise", "latent-up", "mlp", "operators", "full"] | None = None,
    recompute_layers: int | str | None = None,
    attention: Literal["flash", "unfused"] | None = None,
    sequence_parallel: bool | None = None,
    microbatches: int | str | None = None,
    offload: Literal["none", "optimizer", "activations", "all"] | None = None,
    optimizer_states: Literal["fp32", "bf16"] | None = None,
    optimizer: Literal["adamw", "adamw8bit", "paged_adamw", "paged_adamw8bit", "lion", "muon", "adafactor", "sgd"] | None = None,
    optimizer_in_backward: bool | None = None,
    gradient_dtype: Literal["auto", "fp32", "bf16"] | None = None,
    loss: Literal["auto", "eager", "compiled", "triton", "chunked", "fused"] | None = None,
    autocast: bool | None = None,
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] | None = None,
    speculate: int | str | None = None,
    draft: Literal["mtp", "eagle", "ngram"] | None = None,
    acceptance: float | None = None,
    router_load: Literal["even", "power_law_1.01", "power_law_1.2"] | None = None,
    lora: int | str | None = None,
    lora_targets: str | None = None,
    base_dtype: Literal["auto", "nf4", "nf4-double", "int4", "int8", "fp8"] | None = None,
    gpu: str | None = None,
    model: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    enforce_eager: bool | None = None,
    network_gbit_per_s: float | None = None,
    link_gbyte_per_s: float | None = None,
    host_gbyte_per_s: float | None = None,
    any_stack: bool | None = None,
) -> SweepReport:
    """The time of a "gemm", an "attention" or a "model" along the one option that is a range.

    layers: Transformer layers.
    hidden: Width of the residual stream.
    heads: Query heads.
    kv_heads: Key/value heads, a divisor of the query heads.
    d_ff: Inner width of the MLP, or of one expert.
    vocab: Rows of the token embedding.
    mode: Training step, prefill of prompts, or decoding of one token a sequence.
    batch: Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
    seq: Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the
        position table holds].
    context: Cached tokens per sequence [default: 4096, or what the position table leaves in decode,
        else 0].
    dtype: Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or
        w4a16 [default: bf16, or fp16 on a GPU without units for it; when serving a quantized
        checkpoint, as that is stored].
    recipe: How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4;
        served bf16 or fp16 to integers, too [default: tensorwise; when serving a quantized
        checkpoint, as that is stored].
    tp: Tensor-parallel ranks.
    cp: Context-parallel ranks, which share every sequence.
    ep: Expert-parallel ranks, which hold different routed experts.
    expert_tp: Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
    pp: Pipeline stages.
    vp: Virtual pipeline stages a GPU, which interleave.
    dp: Data-parallel replicas.
    zero: ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    recompute: What the backward pass recomputes.
    recompute_layers: Layers of a stage that recompute; 0 means all [default: 0].
    attention: Fused or unfused attention.
    sequence_parallel: Shard norms and residual adds over the tensor-parallel ranks too.
    microbatches: Micro-batches per step: they fill the pipeline and accumulate gradients.
    offload: What training keeps in host memory: optimizer states, with Adam on the CPU,
        activations, or both.
    optimizer_states: Number format of what Adam keeps: fp32 moments and master weights, or bf16
        moments alone.
    optimizer: What updates the weights.
    optimizer_in_backward: Update each weight as soon as its gradient is computed, which is freed
        then (LOMO, torchtune's `optimizer_in_bwd`).
    gradient_dtype: Number format of accumulated gradients; `auto` is that of the framework, fp32 in
        Megatron.
    loss: How the loss is computed; `auto` is as the framework does. It changes memory, not time.
    autocast: Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps
        use them.
    kv_cache_dtype: Number format of cached keys and values; `auto` is that of the checkpoint, else
        of the activations.
    speculate: Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`,
        or the steps of EAGLE; 0 for none [default: 0].
    draft: What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the
        text, which take no time of the GPU [default: mtp of models with experts or such a layer,
        else eagle].
    acceptance: Share of draft tokens that is kept, to a thousandth, each given those before it
        [default: 0.8 of MTP layers, 0.62 of EAGLE].
    router_load: How unevenly the router spreads tokens over the experts of a server; `even` where
        busy experts are replicated (EPLB).
    lora: Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
    lora_targets: Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v
        (PEFT's `target_modules`).
    base_dtype: Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as
        bitsandbytes, int4 as GPTQ and AWQ store them.
    gpu: The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file
        of another; a model of one GPU names its own [default: h200].
    model: A built-in model by name, on the command line also the path of a trained one [default:
        the model of the GPU].
    framework: What runs whole steps: a built-in framework, on the command line also the path of a
        calibrated one; kernels is the plain sum, unknown or unknown-server holds whichever it is
        [default: megatron in training, vllm in serving]. It also says whose kernel a single
        operator is, if it is given.
    enforce_eager: The server launches every kernel from the host instead of replaying CUDA graphs
        (vLLM's --enforce-eager, SGLang's --disable-cuda-graph).
    network_gbit_per_s: Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that
        of the GPU's usual server].
    link_gbyte_per_s: Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for
        cards that reach each other through the host over PCIe 4.0 x8 [default: that of the GPU].
    host_gbyte_per_s: Bandwidth of the link between a GPU and its host in one direction, in GB/s
        [default: that of the GPU's usual server].
    any_stack: Widen intervals so that they hold for any software stack of the GPU, not for the one
        that answers alone. A step has the wider one of its framework and its operators, a planned
        engine that of its framework.
    """

def calibrate(
    runs: str | PathLike[str] | Sequence[str | PathLike[str] | Mapping[str, Any]] | None = None,
    out: str | PathLike[str] | None = None,
    *,
    csv: str | None = None,
    framework: str | Mapping[str, Any] | None = None,
    model: str | None = None,
    name: str | None = None,
    refit: bool | None = None,
) -> CalibrationReport:
    """Fit the constants of a framework to measured steps.

    runs: Measured whole models (docs/runs.md), three or more runs of your own trainer or server:
        files, in JSON also objects with the columns as keys.
    csv: Runs as the text of a CSV table, in JSON alone.
    framework: The framework to depart from [default: megatron in training, vllm in serving].
    model: What predicts the kernels: a built-in model or the path of a trained one, whose GPU the
        runs may be on [default: the model of the GPU].
    name: What the fitted framework is called; on the command line as its file [default:
        calibrated].
    refit: Fit every constant that has a prior, to the runs whose software is that of the framework:
        how the built-in frameworks are made.
    out: The file to write, whose name is that of the framework.
    """

def gpus() -> GpusReport:
    """The known GPUs."""

def models() -> ModelsReport:
    """The trained models that are built in."""

def presets() -> PresetsReport:
    """The published architectures that have a name here."""

def ask(question: str, /, **options: Any) -> Report:
    """The report on any question by its name, such as "predict_gemm" or "check"."""
