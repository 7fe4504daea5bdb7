//! Graphs written for these tests: one layer of a transformer as exporters write it, fused attention, lists, damage.

use super::*;
use crate::ops::{Attention, Gemm, Layout, Memory, MemoryKind, Pass};
use rten_onnx::onnx::{
    AttributeProto, DataType, Dimension, GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, TypeProto,
    TypeProtoTensor, ValueInfoProto,
};
use std::path::PathBuf;

/// What a dimension of an input is.
enum Dim {
    Size(i64),
    Name(&'static str),
}
use Dim::{Name, Size};

fn value(name: &str, element: DataType, dims: &[Dim]) -> ValueInfoProto {
    let dim = dims.iter().map(|dim| match dim {
        Size(size) => Dimension {
            dim_value: Some(*size),
            dim_param: None,
        },
        Name(name) => Dimension {
            dim_value: None,
            dim_param: Some((*name).to_owned()),
        },
    });
    let tensor = TypeProtoTensor {
        elem_type: Some(element),
        shape: Some(TensorShapeProto { dim: dim.collect() }),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            tensor_type: Some(tensor),
            ..TypeProto::default()
        }),
    }
}

fn weight(name: &str, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::FLOAT16),
        ..TensorProto::default()
    }
}

fn numbers(name: &str, numbers: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![numbers.len() as i64],
        data_type: Some(DataType::INT64),
        int64_data: numbers.to_vec(),
        ..TensorProto::default()
    }
}

/// `output = kind(inputs)`, words with spaces between them, and attributes of whole numbers.
fn node(kind: &str, inputs: &str, outputs: &str, attributes: &[(&str, &[i64])]) -> NodeProto {
    let names = |text: &str| text.split(' ').map(|name| name.replace('-', "")).collect();
    let attribute = attributes.iter().map(|(name, values)| AttributeProto {
        name: Some((*name).to_owned()),
        i: (values.len() == 1).then(|| values[0]),
        ints: if values.len() == 1 { Vec::new() } else { values.to_vec() },
        ..AttributeProto::default()
    });
    NodeProto {
        op_type: Some(kind.to_owned()),
        input: names(inputs),
        output: names(outputs),
        attribute: attribute.collect(),
        ..NodeProto::default()
    }
}

/// One layer of 8 heads of 64 in fp16, whose reshapes are computed from the shapes of its inputs.
fn layer() -> GraphProto {
    let heads = |from: &str, to: &str| {
        [
            node("Reshape", &format!("{from} split_shape"), &format!("{to}_split"), &[]),
            node("Transpose", &format!("{to}_split"), to, &[("perm", &[0, 2, 1, 3])]),
        ]
    };
    let mut nodes = vec![
        node("Gather", "table ids", "x", &[]),
        node("LayerNormalization", "x gain shift", "normed", &[("axis", &[-1])]),
        node("MatMul", "normed w_qkv", "qkv_plain", &[]),
        node("Add", "qkv_plain b_qkv", "qkv", &[]),
        node("Split", "qkv", "q k v", &[("axis", &[-1])]),
        node("Shape", "ids", "ids_shape", &[]),
        node("Concat", "ids_shape eight_sixty_four", "split_shape", &[("axis", &[0])]),
    ];
    nodes.extend(heads("q", "q_heads"));
    nodes.extend(heads("v", "v_heads"));
    nodes.extend([
        node("Reshape", "k split_shape", "k_split", &[]),
        node("Transpose", "k_split", "k_heads", &[("perm", &[0, 2, 3, 1])]),
        node("MatMul", "q_heads k_heads", "scores", &[]),
        node("Mul", "scores scale", "scaled", &[]),
        node("Add", "scaled mask", "masked", &[]),
        node("Softmax", "masked", "shares", &[("axis", &[-1])]),
        node("MatMul", "shares v_heads", "mixed", &[]),
        node("Transpose", "mixed", "turned", &[("perm", &[0, 2, 1, 3])]),
        node("Concat", "ids_shape five_twelve", "joined_shape", &[("axis", &[0])]),
        node("Reshape", "turned joined_shape", "joined", &[]),
        node("Gemm_like", "joined", "ignored", &[]),
        node("MatMul", "joined w_out", "out", &[]),
        node("Add", "x out", "residual", &[]),
        node("MatMul", "residual w_up", "up_plain", &[]),
        node("Add", "up_plain b_up", "up", &[]),
        node("Gelu", "up", "active", &[]),
        node("MatMul", "active w_down", "down", &[]),
        node("Add", "residual down", "y", &[]),
    ]);
    GraphProto {
        node: nodes,
        initializer: vec![
            weight("table", &[1000, 512]),
            weight("gain", &[512]),
            weight("shift", &[512]),
            weight("w_qkv", &[512, 1536]),
            weight("b_qkv", &[1536]),
            weight("w_out", &[512, 512]),
            weight("w_up", &[512, 2048]),
            weight("b_up", &[2048]),
            weight("w_down", &[2048, 512]),
            weight("scale", &[]),
            numbers("eight_sixty_four", &[8, 64]),
            numbers("five_twelve", &[512]),
        ],
        input: vec![
            value("ids", DataType::INT64, &[Name("batch"), Name("tokens")]),
            value(
                "mask",
                DataType::FLOAT16,
                &[Name("batch"), Size(1), Name("tokens"), Name("tokens")],
            ),
        ],
        output: vec![value(
            "y",
            DataType::FLOAT16,
            &[Name("batch"), Name("tokens"), Size(512)],
        )],
        value_info: Vec::new(),
    }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn graph(&self, graph: GraphProto) -> PathBuf {
        let model = ModelProto {
            ir_version: Some(10),
            graph: Some(graph),
            ..ModelProto::default()
        };
        self.file("model.onnx", &model.write_buf().unwrap())
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn sized(sizes: &[(&str, u64)]) -> Options {
    Options {
        dims: sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect(),
        ..Options::default()
    }
}

const TOKENS: [(&str, u64); 2] = [("batch", 4), ("tokens", 128)];

fn gemm(m: u64, n: u64, k: u64) -> Op {
    Op::Gemm(Gemm {
        dtype: Dtype::Fp16,
        ..Gemm::new(m, n, k)
    })
}

fn memory(kind: MemoryKind, cols: u64) -> Op {
    Op::Memory(Memory {
        kind,
        rows: 512,
        cols,
        pass: Pass::Forward,
        dtype: Dtype::Fp16,
    })
}

#[test]
fn a_layer_is_its_kernels_and_what_is_not_known_is_named() {
    let place = Place::new();
    let path = place.graph(layer());
    let listing = read(&path, &sized(&TOKENS)).unwrap();
    let attention = Attention {
        causal: false,
        dtype: Dtype::Fp16,
        ..Attention::new(4, 8, 128, 64)
    };
    let expected = [
        ("Gather", memory(MemoryKind::Embedding, 512), 1),
        ("LayerNormalization", memory(MemoryKind::LayerNorm, 512), 1),
        ("MatMul", gemm(512, 1536, 512), 1),
        ("attention of MatMul, Softmax, MatMul", Op::Attention(attention), 1),
        ("MatMul", gemm(512, 512, 512), 1),
        ("Add", memory(MemoryKind::Add, 512), 2),
        ("MatMul", gemm(512, 2048, 512), 1),
        ("Gelu", memory(MemoryKind::Gelu, 2048), 1),
        ("MatMul", gemm(512, 512, 2048), 1),
    ];
    let expected = expected.map(|(kind, op, count)| Item {
        kind: kind.to_owned(),
        op,
        count,
    });
    assert_eq!(listing.items, expected);
    let unknown: Vec<_> = listing.unknown.iter().map(|one| (&*one.kind, one.nodes)).collect();
    assert_eq!(unknown, [("Gemm_like", 1)]);
    // Both biases; of attention all but the second product: 3 of heads, 5 before it, 1 behind it.
    assert_eq!(listing.fused, 2 + 8);
    assert!(listing.notes[0].contains("`causal`"), "{:?}", listing.notes);
    let causal = Options {
        causal: true,
        dtype: Some(Dtype::Bf16),
        ..sized(&TOKENS)
    };
    let listing = read(&path, &causal).unwrap();
    assert!(listing.notes.is_empty(), "{:?}", listing.notes);
    let found = listing.items.iter().find_map(|item| match item.op {
        Op::Attention(op) => Some(op),
        _ => None,
    });
    assert!(found.is_some_and(|op| op.causal && op.dtype == Dtype::Bf16));
}

#[test]
fn symbolic_dimensions_are_asked_for_by_name() {
    let place = Place::new();
    let path = place.graph(layer());
    let refused = |sizes: &[(&str, u64)]| read(&path, &sized(sizes)).unwrap_err().to_string();
    let open = refused(&[("batch", 4)]);
    for part in ["model.onnx", "open (tokens)", "--dim tokens=SIZE"] {
        assert!(open.contains(part), "{open}");
    }
    assert!(refused(&[]).contains("open (batch, tokens)"));
    let other = refused(&[("batch", 4), ("tokens", 8), ("heads", 2)]);
    assert!(other.contains("`heads`") && other.contains("batch, tokens"), "{other}");
}

#[test]
fn fused_attention_has_its_heads_cache_and_mask() {
    let inputs = |width: i64| {
        vec![
            value("q", DataType::BFLOAT16, &[Size(2), Size(1), Size(width)]),
            value("k", DataType::BFLOAT16, &[Size(2), Size(1), Size(width / 4)]),
            value("v", DataType::BFLOAT16, &[Size(2), Size(1), Size(width / 4)]),
            value("past", DataType::BFLOAT16, &[Size(2), Size(8), Size(1000), Size(128)]),
        ]
    };
    let graph = |node: NodeProto| GraphProto {
        node: vec![node],
        input: inputs(4096),
        ..GraphProto::default()
    };
    let wanted = Attention {
        kv_heads: 8,
        seq_kv: 1001,
        ..Attention::new(2, 32, 1, 128)
    };
    let heads: [(&str, &[i64]); 3] = [("q_num_heads", &[32]), ("kv_num_heads", &[8]), ("is_causal", &[1])];
    let grouped: [(&str, &[i64]); 2] = [("num_heads", &[32]), ("kv_num_heads", &[8])];
    let place = Place::new();
    for node in [
        node("Attention", "q k v - past past", "y", &heads),
        node("GroupQueryAttention", "q k v past past", "y", &grouped),
    ] {
        let listing = read(&place.graph(graph(node)), &Options::default()).unwrap();
        assert_eq!(listing.items[0].op, Op::Attention(wanted));
        assert_eq!((listing.items.len(), listing.unknown.len()), (1, 0));
    }
    // The operator of this name in ONNX Runtime projects, too.
    let mut other = node("Attention", "q k v", "y", &[]);
    other.domain = Some("com.microsoft".to_owned());
    let refused = read(&place.graph(graph(other)), &Options::default()).unwrap_err();
    assert!(refused.to_string().contains("com.microsoft.Attention"), "{refused}");
}

/// `torch.onnx.export` replaces what is no number in rows that are masked entirely.
#[test]
fn a_guard_on_masked_rows_is_in_the_kernel_of_attention() {
    let place = Place::new();
    let plain = read(&place.graph(layer()), &sized(&TOKENS)).unwrap();
    let mut guarded = layer();
    let softmax = guarded
        .node
        .iter()
        .position(|node| node.op_type.as_deref() == Some("Softmax"));
    let at = softmax.unwrap() + 1;
    guarded.node[at].input[0] = "kept".to_owned();
    guarded.node.insert(at, node("Where", "bad zero shares", "kept", &[]));
    guarded.node.insert(at, node("IsNaN", "shares", "bad", &[]));
    guarded.initializer.push(weight("zero", &[]));
    let listing = read(&place.graph(guarded), &sized(&TOKENS)).unwrap();
    assert_eq!(listing.items, plain.items);
    assert_eq!(listing.fused, plain.fused + 2);
}

#[test]
fn what_onnx_runtime_fuses_and_quantizes_is_timed() {
    let of_runtime = |node: NodeProto| NodeProto {
        domain: Some("com.microsoft".to_owned()),
        ..node
    };
    let nodes = vec![
        node(
            "EmbedLayerNormalization",
            "ids - table places - gain shift",
            "x mask",
            &[],
        ),
        of_runtime(node("Attention", "x w_qkv b_qkv mask", "a", &[("num_heads", &[8])])),
        node("MatMul", "a w", "o", &[]),
        node("SkipLayerNormalization", "x o gain shift shift", "n - - sum", &[]),
        node(
            "MatMulNBits",
            "n packed scales",
            "up",
            &[("K", &[512]), ("N", &[2048]), ("bits", &[4])],
        ),
        node("FastGelu", "up b_up", "act", &[]),
        node("DynamicQuantizeMatMul", "act w_down scale", "down", &[]),
        node("DynamicQuantizeLinear", "down", "small small_scale small_zero", &[]),
        node("MatMulInteger", "small w small_zero", "whole", &[]),
        node("Cast", "whole", "back", &[("to", &[10])]),
        node("Mul", "back scale", "scaled", &[]),
        node("FusedMatMul", "scaled w", "h", &[("transB", &[1])]),
        node("SkipSimplifiedLayerNormalization", "sum h gain", "normed", &[]),
        node("QuantizeLinear", "normed scale zero", "stored", &[]),
        node("DequantizeLinear", "stored scale zero", "left", &[]),
        node("DequantizeLinear", "w_small scale zero", "right", &[]),
        node("MatMul", "left right", "y", &[]),
        node("QLinearAdd", "stored scale zero stored scale zero", "added", &[]),
    ];
    let small = |name, dims: &[i64]| TensorProto {
        data_type: Some(DataType::INT8),
        ..weight(name, dims)
    };
    let graph = GraphProto {
        node: nodes,
        initializer: vec![
            weight("table", &[1000, 512]),
            weight("places", &[64, 512]),
            weight("gain", &[512]),
            weight("shift", &[512]),
            weight("w_qkv", &[512, 1536]),
            weight("b_qkv", &[1536]),
            weight("w", &[512, 512]),
            weight("b_up", &[2048]),
            weight("w_down", &[2048, 512]),
            weight("scale", &[]),
            small("zero", &[]),
            small("w_small", &[512, 256]),
        ],
        input: vec![value("ids", DataType::INT64, &[Size(8), Size(64)])],
        ..GraphProto::default()
    };
    let listing = read(&Place::new().graph(graph), &Options::default()).unwrap();
    let product = |dtype, n, k| {
        Op::Gemm(Gemm {
            dtype,
            ..Gemm::new(512, n, k)
        })
    };
    let attention = Attention {
        causal: false,
        dtype: Dtype::Fp16,
        ..Attention::new(8, 8, 64, 64)
    };
    let expected = [
        ("EmbedLayerNormalization", memory(MemoryKind::Embedding, 512)),
        ("com.microsoft.Attention", gemm(512, 1536, 512)),
        ("com.microsoft.Attention", Op::Attention(attention)),
        ("MatMul", gemm(512, 512, 512)),
        ("SkipLayerNormalization", memory(MemoryKind::Add, 512)),
        ("MatMulNBits", product(Dtype::W4a16, 2048, 512)),
        ("FastGelu", memory(MemoryKind::Gelu, 2048)),
        ("DynamicQuantizeMatMul", product(Dtype::Int8, 512, 2048)),
        ("DynamicQuantizeLinear", memory(MemoryKind::Copy, 512)),
        ("MatMulInteger", product(Dtype::Int8, 512, 512)),
        ("Mul", memory(MemoryKind::Copy, 512)),
        ("FusedMatMul", gemm(512, 512, 512)),
        ("SkipSimplifiedLayerNormalization", memory(MemoryKind::Add, 512)),
        ("MatMul", product(Dtype::Int8, 256, 512)),
    ];
    let found: Vec<_> = listing.items.iter().map(|item| (&*item.kind, item.op)).collect();
    assert_eq!(found, expected);
    let unknown: Vec<_> = listing.unknown.iter().map(|one| &*one.kind).collect();
    assert_eq!(unknown, ["QLinearAdd"]);
}

#[test]
fn packed_and_cached_attention_of_onnx_runtime_has_its_heads() {
    let place = Place::new();
    let half = |name, dims: &[i64]| {
        let dims: Vec<_> = dims.iter().map(|size| Size(*size)).collect();
        value(name, DataType::FLOAT16, &dims)
    };
    let graph = |node: NodeProto| GraphProto {
        node: vec![node, node_after()],
        input: vec![
            half("grouped", &[2, 1, 6144]),
            half("packed", &[2, 16, 8, 3, 64]),
            half("q", &[2, 16, 512]),
            half("kv", &[2, 24, 8, 2, 64]),
            half("tokens", &[100, 512]),
            half("past", &[2, 8, 1000, 128]),
            value("offset", DataType::INT32, &[Size(4), Size(64)]),
        ],
        initializer: vec![weight("w", &[512, 1536]), weight("b", &[1536])],
        ..GraphProto::default()
    };
    fn node_after() -> NodeProto {
        node("Relu", "y", "z", &[])
    }
    let fp16 = |op: Attention| {
        Op::Attention(Attention {
            dtype: Dtype::Fp16,
            ..op
        })
    };
    let full = |op: Attention| fp16(Attention { causal: false, ..op });
    let eight: [(&str, &[i64]); 1] = [("num_heads", &[8])];
    let mut packed = node("PackedAttention", "tokens w b offset", "y", &eight);
    packed.domain = Some("com.microsoft".to_owned());
    for (node, wanted, elements) in [
        (
            node(
                "GroupQueryAttention",
                "grouped - - past past",
                "y",
                &[("num_heads", &[32]), ("kv_num_heads", &[8])],
            ),
            fp16(Attention {
                kv_heads: 8,
                seq_kv: 1001,
                ..Attention::new(2, 32, 1, 128)
            }),
            2 * 4096,
        ),
        (
            node("MultiHeadAttention", "packed", "y", &eight),
            full(Attention::new(2, 8, 16, 64)),
            2 * 16 * 512,
        ),
        (
            node("MultiHeadAttention", "q kv", "y", &eight),
            full(Attention {
                seq_kv: 24,
                ..Attention::new(2, 8, 16, 64)
            }),
            2 * 16 * 512,
        ),
        (packed, full(Attention::new(4, 8, 64, 64)), 100 * 512),
    ] {
        let kind = node.op_type.clone().unwrap();
        let listing = read(&place.graph(graph(node)), &Options::default()).unwrap();
        let ops: Vec<_> = listing.items.iter().map(|item| item.op).collect();
        assert!(ops.contains(&wanted), "{kind}: {ops:?}");
        let Some(Op::Memory(relu)) = ops.last() else {
            panic!("{kind}: {ops:?}")
        };
        assert_eq!(relu.rows * relu.cols, elements, "{kind}");
    }
}

#[test]
fn products_follow_their_shapes() {
    let place = Place::new();
    let graph = GraphProto {
        node: vec![
            node("MatMul", "a b", "c", &[]),
            node("Gemm", "x w", "y", &[("transB", &[1])]),
            node("MatMul", "x bad", "z", &[]),
            node("Relu", "open", "unknown", &[]),
        ],
        initializer: vec![weight("w", &[300, 200]), weight("bad", &[7, 9])],
        input: vec![
            value("a", DataType::FLOAT, &[Size(6), Size(10), Size(20)]),
            value("b", DataType::FLOAT, &[Size(6), Size(20), Size(30)]),
            value("x", DataType::FLOAT, &[Size(100), Size(200)]),
        ],
        ..GraphProto::default()
    };
    let listing = read(&place.graph(graph), &Options::default()).unwrap();
    let ops: Vec<_> = listing.items.iter().map(|item| item.op).collect();
    let fp32 = |gemm: Gemm| {
        Op::Gemm(Gemm {
            dtype: Dtype::Fp32,
            ..gemm
        })
    };
    let batched = Gemm {
        batch: 6,
        layout: Layout::Nn,
        ..Gemm::new(10, 30, 20)
    };
    assert_eq!(ops, [fp32(batched), fp32(Gemm::new(100, 300, 200))]);
    let reasons: Vec<_> = listing.unknown.iter().map(|one| (&*one.kind, &*one.reason)).collect();
    assert!(
        reasons[0].0 == "MatMul" && reasons[0].1.contains("200 columns and 7 rows"),
        "{reasons:?}"
    );
    assert!(reasons[1].0 == "Relu" && reasons[1].1.contains("shape"), "{reasons:?}");
    assert!(listing.notes[0].contains("`dtype` such as bf16"), "{:?}", listing.notes);
}

#[test]
fn a_list_has_the_keys_of_answers_and_counts() {
    let place = Place::new();
    let lines = r#"{"kind": "gemm", "m": 64, "n": 512, "k": 256, "dtype": "fp16", "count": 3, "name": "up"}

{"kind": "gemm", "m": 64, "n": 512, "k": 256, "dtype": "fp16"}
{"kind": "memory", "function": "rms_norm", "rows": 512, "cols": 512, "dtype": "fp16"}
{"kind": "attention", "heads": 8, "kv_heads": 2, "seq_q": 128, "head_dim": 64, "causal": true, "dtype": "fp16"}
"#;
    let listing = read(&place.file("ops.jsonl", lines.as_bytes()), &Options::default()).unwrap();
    let counts: Vec<_> = listing.items.iter().map(|item| item.count).collect();
    assert_eq!(counts, [4, 1, 1]);
    assert_eq!(listing.items[0].op, gemm(64, 512, 256));
    assert_eq!(listing.items[1].op, memory(MemoryKind::RmsNorm, 512));
    let attention = Attention {
        kv_heads: 2,
        dtype: Dtype::Fp16,
        ..Attention::new(1, 8, 128, 64)
    };
    assert_eq!(listing.items[2].op, Op::Attention(attention));
    let line = br#"{"kind": "attention", "heads": 8, "seq_q": 9, "head_dim": 64}"#;
    for causal in [false, true] {
        let options = Options {
            causal,
            ..Options::default()
        };
        let listing = read(&place.file("one.jsonl", line), &options).unwrap();
        let attention = Attention {
            causal,
            ..Attention::new(1, 8, 9, 64)
        };
        assert_eq!(listing.items[0].op, Op::Attention(attention));
    }
    for (line, parts) in [
        (r#"{"kind": "conv", "m": 1}"#, ["`kind` is \"conv\"", "gemm, attention"]),
        (
            r#"{"kind": "gemm", "m": 1, "n": 1}"#,
            ["`k` is absent", "whole numbers"],
        ),
        (
            r#"{"kind": "collective", "pattern": "all_reduce", "bytes": 1024}"#,
            ["`ranks` is absent", "whole numbers"],
        ),
        (r#"{"kind": "gemm", "m": 0, "n": 1, "k": 1}"#, ["`m` is 0", "from 1"]),
        (
            r#"{"kind": "gemm", "m": 1, "n": 1, "k": 1, "o": 2}"#,
            ["`o` is 2", "m, n, k"],
        ),
        (
            r#"{"kind": "gemm", "m": 1, "n": 1, "k": 1, "count": 0}"#,
            ["`count` is 0", "whole number"],
        ),
        (
            r#"{"kind": "attention", "heads": 8, "seq_q": 100, "seq_kv": 10, "head_dim": 64, "causal": true}"#,
            ["seq_kv is 10", "at least seq_q, 100"],
        ),
        (
            r#"{"kind": "attention", "heads": 8, "kv_heads": 3, "seq_q": 1, "head_dim": 64}"#,
            ["kv_heads is 3", "a divisor of heads, 8"],
        ),
        ("[]", ["no JSON object", "one operator"]),
        ("", ["no operator", "one a line"]),
    ] {
        let refused = read(&place.file("bad.jsonl", line.as_bytes()), &Options::default());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("bad.jsonl"), "{refused}");
        assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
    }
}

#[test]
fn what_is_no_graph_is_refused() {
    let place = Place::new();
    let whole = std::fs::read(place.graph(layer())).unwrap();
    for length in [0, 1, 7, whole.len() / 2, whole.len() - 1] {
        let path = place.file("cut.onnx", &whole[..length]);
        let refused = read(&path, &sized(&TOKENS)).unwrap_err();
        assert!(refused.to_string().contains("cut.onnx"), "{refused}");
    }
    let refused = read(&place.file("model.pt", b"x"), &Options::default()).unwrap_err();
    assert!(refused.to_string().contains(".onnx or .jsonl"), "{refused}");
    assert!(read(Path::new("/dev/zero"), &Options::default()).is_err());
}

#[test]
fn a_field_that_states_more_than_the_file_has_is_refused_before_it_is_read() {
    // A graph of 2^40 bytes with a name of 2^39, as fields of seven bytes.
    let beyond = [
        &[0x3a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20][..],
        &[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10],
    ];
    // Graphs in attributes of nodes of graphs.
    let mut deep = Vec::new();
    for field in [0x32, 0x2a, 0x0a].into_iter().cycle().take(1200) {
        let (low, high) = (deep.len() as u8 | 0x80, (deep.len() >> 7) as u8);
        deep.splice(..0, [field, low, high]);
    }
    let deep = [&[0x3a, deep.len() as u8 | 0x80, (deep.len() >> 7) as u8], &*deep].concat();
    for bytes in [beyond.concat(), deep, vec![0x3b], vec![0x38, 0xff]] {
        let refused = of_onnx(&bytes, &Options::default(), "model").unwrap_err();
        assert!(refused.to_string().contains("beyond its message"), "{refused}");
    }
}

#[test]
fn shapes_that_grow_without_end_stay_unknown() {
    let input = |dims: &[Dim]| vec![value("x", DataType::FLOAT, dims)];
    let model = |nodes: Vec<NodeProto>, input, initializer| {
        let model = ModelProto {
            graph: Some(GraphProto {
                node: nodes,
                input,
                initializer,
                ..GraphProto::default()
            }),
            ..ModelProto::default()
        };
        of_onnx(&model.write_buf().unwrap(), &Options::default(), "model")
    };
    // Each node doubles the sizes, the dimensions, or the numbers of the one before.
    for (kind, axis) in [("Concat", 0), ("Gather", 0), ("Concat", 1)] {
        let doubled = (0..64).map(|at| {
            let before = if at == 0 { "x".to_owned() } else { format!("x{at}") };
            node(
                kind,
                &format!("{before} {before}"),
                &format!("x{}", at + 1),
                &[("axis", &[axis])],
            )
        });
        let last = node("Relu", "x64", "y", &[]);
        let nodes: Vec<_> = doubled.chain([last]).collect();
        let listing = model(nodes, input(&[Size(4), Size(4)]), Vec::new()).unwrap();
        assert_eq!(listing.unknown.last().unwrap().kind, "Relu", "{kind}");
    }
    let shape = |at: usize| match at {
        0 => node("Concat", "ids ids", "n1", &[("axis", &[0])]),
        at => node(
            "Concat",
            &format!("n{at} n{at}"),
            &format!("n{}", at + 1),
            &[("axis", &[0])],
        ),
    };
    let mut nodes: Vec<_> = (0..40).map(shape).collect();
    nodes.push(node("Reshape", "x n40", "y", &[]));
    nodes.push(node("Relu", "x", "z", &[]));
    let steps = "Slice ids ids ids ids none";
    nodes.push(node("Slice", &steps[6..], "sliced", &[]));
    let initializer = vec![numbers("ids", &[1, 1]), numbers("none", &[])];
    let listing = model(nodes, input(&[Size(1 << 60), Size(1 << 60)]), initializer);
    let refused = listing.unwrap_err().to_string();
    assert!(refused.contains("Relu"), "{refused}");
}
