"""Modules of PyTorch as lists of operators.

A module runs once on the meta device, where tensors have shapes and no data. Every kernel that PyTorch would launch in
eager mode is an operator.
"""

import json
from collections import Counter

import torch
from shapewise._shapewise import RequestError
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

FORMATS = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.float8_e4m3fn: "fp8"}

# The place of the left operand of a GEMM among the arguments; the right one is the next.
GEMMS = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "_scaled_mm": 0}

# Kernels over rows of the first argument or, where it is smaller, of the result.
KERNELS = {
    "native_layer_norm": ("layer_norm", "forward"),
    "native_layer_norm_backward": ("layer_norm", "backward"),
    "_softmax": ("softmax", "forward"),
    "_safe_softmax": ("softmax", "forward"),
    "_softmax_backward_data": ("softmax", "backward"),
    "_log_softmax": ("softmax", "forward"),
    "_log_softmax_backward_data": ("softmax", "backward"),
    "gelu": ("gelu", "forward"),
    "gelu_backward": ("gelu", "backward"),
    "embedding": ("embedding", "forward"),
    "embedding_dense_backward": ("embedding", "backward"),
    **dict.fromkeys(
        "_to_copy amax cat clone copy cumsum gather index index_select mean select_backward slice_backward sum".split(),
        ("copy", "forward"),
    ),
}

# What launches no kernel that moves data, besides views and what makes a tensor out of none.
FREE = {"_unsafe_view", "detach", "new_empty", "new_empty_strided", "empty_like"}


class Recorder(TorchDispatchMode):
    """Counts the operators, and what is none of ours by its name."""

    def __init__(self):
        super().__init__()
        self.ops = Counter()
        self.others = Counter()

    def add(self, **op):
        self.ops[json.dumps(op)] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            # What looks at data finds ones: masks hide nothing.
            return True if args[0].dtype is torch.bool else 1
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        made = next((leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)), None)
        alias = next((value.alias_info for value in func._schema.returns), None)
        is_view = alias is not None and not alias.is_write
        if made is None or not tensors or is_view or name in FREE or not made.numel():
            return result
        if name in GEMMS:
            left, right = args[GEMMS[name] : GEMMS[name] + 2]
            self.gemm(left, right)
        elif name in KERNELS:
            kind, way = KERNELS[name]
            # Rows of a table are those that are looked up, whatever its size.
            sides = {"embedding": [made], "embedding_dense_backward": tensors[:1]}.get(name, [tensors[0], made])
            self.memory(kind, way, max(sides, key=torch.Tensor.numel))
        elif torch.Tag.pointwise in func.tags:
            whole = sum(tensor.numel() == made.numel() for tensor in tensors)
            self.memory("add" if whole > 1 else "copy", "forward", made)
        elif made.is_floating_point():
            self.others[f"aten::{name}"] += 1
        return result

    def gemm(self, left, right):
        def side(matrix):
            row, column = matrix.stride()[-2:]
            return "t" if row == 1 and column != 1 else "n"

        *batch, m, k = left.shape
        if left.dtype not in FORMATS:
            self.others[f"product in {left.dtype}"] += 1
            return
        self.add(
            kind="gemm",
            m=m,
            n=right.shape[-1],
            k=k,
            batch=batch[0] if batch else 1,
            layout=side(right) + side(left),
            dtype=FORMATS[left.dtype],
        )

    def memory(self, function, way, tensor):
        # Whole numbers and flags are positions and masks, which are small.
        if tensor.dtype in FORMATS:
            cols = tensor.shape[-1] if tensor.dim() else 1
            op = {"kind": "memory", "function": function, "rows": tensor.numel() // cols, "cols": cols, "pass": way}
            self.add(**op, dtype=FORMATS[tensor.dtype])


class Fused(TorchFunctionMode):
    """Functions that have one kernel on a GPU and many on the meta device."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention and args and args[0].dim() > 2:
            return self.attention(*args, **kwargs)
        if func in (functional.rms_norm, torch.rms_norm):
            tensor = args[0]
            return self.fused(lambda way: self.recorder.memory("rms_norm", way, tensor), tensor.shape, *args[:1])
        return func(*args, **kwargs)

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **_):
        *batch, heads, seq_q, width = query.shape
        op = {
            "kind": "attention",
            "batch": max(1, query.numel() // (heads * seq_q * width)),
            "heads": heads,
            "kv_heads": key.shape[-3],
            "seq_q": seq_q,
            "seq_kv": key.shape[-2],
            "head_dim": width,
            "value_dim": value.shape[-1],
            "causal": bool(is_causal),
            "dtype": FORMATS.get(query.dtype, "bf16"),
        }
        shape = (*query.shape[:-1], value.shape[-1])
        return self.fused(lambda way: self.recorder.add(**op, **{"pass": way}), shape, query, key, value)

    @staticmethod
    def fused(record, shape, *inputs):
        class Kernel(torch.autograd.Function):
            @staticmethod
            def forward(context, *inputs):
                record("forward")
                context.inputs = inputs
                return inputs[0].new_empty(shape)

            @staticmethod
            def backward(context, _):
                record("backward")
                return tuple(torch.empty_like(each) for each in context.inputs)

        return Kernel.apply(*inputs)


def operators(module, inputs, kwargs, backward):
    """The operators of one call as dicts, and how often something ran that is none of ours."""

    def meta(tensor):
        return torch.empty_like(tensor, device="meta").requires_grad_(tensor.requires_grad)

    state = {name: meta(each) for name, each in [*module.named_parameters(), *module.named_buffers()]}
    inputs, kwargs = tree_map_only(torch.Tensor, meta, (inputs, kwargs))
    recorder = Recorder()
    with torch.set_grad_enabled(backward), torch.device("meta"), recorder, Fused(recorder):
        found = torch.func.functional_call(module, state, inputs, kwargs)
        if backward:
            leaves = found.values() if isinstance(found, dict) else tree_leaves(found)
            wanted = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            if not wanted:
                raise RequestError("module: no output depends on a weight that is trained; allowed: backward=False")
            # A loss is what training goes backward from; other outputs beside it are for people.
            wanted = [leaf for leaf in wanted if not leaf.dim()] or wanted
            torch.autograd.backward(wanted, [torch.empty_like(each) for each in wanted])
    return [json.loads(op) | {"count": count} for op, count in recorder.ops.items()], recorder.others
