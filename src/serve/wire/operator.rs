//! Products and attention as JSON: alone, among many, or along one size.

use super::size::{Whole, WholeSpan, one};
use super::usual_gpu;
use crate::ops::Dtype;
use crate::ops::Layout;
use crate::ops::Op;
use crate::ops::Pass;
use crate::query;
use crate::query::Size;
use crate::serve::body;
use crate::serve::problem::Problem;
use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::schema::{OneOfBuilder, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Declares a product and an attention with sizes of one kind, and what else their bodies hold.
macro_rules! operators {
    ($(#[$about:meta])* $gemm:ident, $attention:ident, $size:ty => $plain:ty, { $($target:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $gemm {
            /// Rows of the left operand and of the product.
            #[schema(examples(8192))]
            pub m: $size,
            /// Columns of the right operand and of the product.
            #[schema(examples(4096))]
            pub n: $size,
            /// The reduction: columns of the left operand, rows of the right one.
            #[schema(examples(4096))]
            pub k: $size,
            /// Independent products in one call.
            #[serde(default = "one")]
            #[schema(default = 1)]
            pub batch_count: $size,
            /// Number format of the operands.
            #[serde(default = "bf16")]
            #[schema(default = "bf16")]
            pub dtype: Dtype,
            /// Which operand is stored transposed, in cuBLAS terms.
            #[serde(default = "tn")]
            #[schema(default = "tn")]
            pub layout: Layout,
            $($target)*
        }

        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $attention {
            /// Sequences.
            #[schema(examples(4))]
            pub batch: $size,
            /// Query heads.
            #[schema(examples(32))]
            pub heads: $size,
            /// Key/value heads, a divisor of the query heads; as many where left out.
            pub kv_heads: Option<$size>,
            /// Queries per sequence; 1 is a decoding step.
            #[schema(examples(2048))]
            pub seq: $size,
            /// Keys per sequence, cached ones included; as many as queries where left out.
            pub kv_seq: Option<$size>,
            /// Width of one head.
            #[schema(examples(128))]
            pub head_dim: $size,
            /// Each query sees only the keys up to its own position.
            #[serde(default)]
            pub causal: bool,
            /// Forward or backward.
            #[serde(default = "forward")]
            #[schema(default = "forward")]
            pub pass: Pass,
            /// Number format of queries, keys and values.
            #[serde(default = "bf16")]
            #[schema(default = "bf16")]
            pub dtype: Dtype,
            $($target)*
        }

        impl From<&$gemm> for query::operator::Gemm<$plain> {
            fn from(wire: &$gemm) -> Self {
                Self {
                    m: wire.m.0,
                    n: wire.n.0,
                    k: wire.k.0,
                    batch_count: wire.batch_count.0,
                    dtype: wire.dtype,
                    layout: wire.layout,
                }
            }
        }

        impl From<&$attention> for query::operator::Attention<$plain> {
            fn from(wire: &$attention) -> Self {
                Self {
                    batch: wire.batch.0,
                    heads: wire.heads.0,
                    kv_heads: wire.kv_heads.map(|heads| heads.0),
                    seq: wire.seq.0,
                    kv_seq: wire.kv_seq.map(|keys| keys.0),
                    head_dim: wire.head_dim.0,
                    causal: wire.causal,
                    pass: wire.pass,
                    dtype: wire.dtype,
                }
            }
        }
    };
}

operators! {
    /// One operator on one GPU.
    Gemm, Attention, Whole => u64, {
        /// The GPU; `/v1/gpus` lists them.
        #[serde(default = "usual_gpu")]
        #[schema(default = "h200")]
        pub gpu: String,
        /// A built-in model by name; by default the model of the GPU.
        pub model: Option<String>,
    }
}

operators! {
    /// One operator among many.
    GemmOp, AttentionOp, Whole => u64, {}
}

operators! {
    /// One operator along one of its sizes, which is a range.
    SweptGemm, SweptAttention, WholeSpan => Size, {
        /// The GPU; `/v1/gpus` lists them.
        #[serde(default = "usual_gpu")]
        #[schema(default = "h200")]
        pub gpu: String,
        /// A built-in model by name; by default the model of the GPU.
        pub model: Option<String>,
    }
}

/// The most operators of one batch.
pub const MOST_OPS: usize = 10_000;

/// Many operators on one GPU.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The operators; they are answered in this order.
    #[schema(value_type = Vec<Operator>, min_items = 1, max_items = 10_000)]
    pub ops: Vec<Value>,
    /// The GPU; `/v1/gpus` lists them.
    #[serde(default = "usual_gpu")]
    #[schema(default = "h200")]
    pub gpu: String,
    /// A built-in model by name; by default the model of the GPU.
    pub model: Option<String>,
}

/// One operator among many, for the document of the API: each kind is read as what it is, so that messages name its
/// fields. Each is one object there, because one that takes no other keys cannot be added to.
pub struct Operator;

impl PartialSchema for Operator {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .item(of_kind::<GemmOp>("gemm", "A product."))
            .item(of_kind::<AttentionOp>("attention", "A fused attention."))
            .description(Some("One operator among many."))
            .into()
    }
}

impl ToSchema for Operator {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        GemmOp::schemas(schemas);
        AttentionOp::schemas(schemas);
    }
}

/// The schema of `O` with a key `kind` that says `kind`.
pub fn of_kind<O: ToSchema>(kind: &str, about: &str) -> RefOr<Schema> {
    let mut schema = O::schema();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        let only = ObjectBuilder::new().schema_type(Type::String);
        let only = only.enum_values(Some([kind]));
        object.properties.insert("kind".to_owned(), only.into());
        object.required.push("kind".to_owned());
        object.description = Some(about.to_owned());
    }
    schema
}
/// Takes the key `kind` out of an object.
pub fn take_kind(body: &mut Value) -> Option<Value> {
    body.as_object_mut()?.shift_remove("kind")
}

/// The problem of a kind that is none of those that are allowed.
pub fn other_kind(kind: Option<Value>, allowed: &str) -> Problem {
    let found = kind.map_or_else(|| "absent".to_owned(), |kind| kind.to_string());
    Problem::field("kind", &found, allowed)
}

/// Reads one operator of a batch.
pub fn operator(mut op: Value) -> Result<Op, Problem> {
    let kind = take_kind(&mut op);
    match kind.as_ref().and_then(Value::as_str) {
        Some("gemm") => {
            let gemm: GemmOp = body::parse(op)?;
            Ok(query::operator::Gemm::from(&gemm).op())
        }
        Some("attention") => {
            let attention: AttentionOp = body::parse(op)?;
            Ok(query::operator::Attention::from(&attention).op()?)
        }
        _ => Err(other_kind(kind, "`gemm` or `attention`")),
    }
}

const fn bf16() -> Dtype {
    Dtype::Bf16
}

const fn tn() -> Layout {
    Layout::Tn
}

const fn forward() -> Pass {
    Pass::Forward
}
