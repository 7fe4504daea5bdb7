//! One GEMM or one attention.

use crate::error::{Error, FieldError, Result};
use crate::gpu::Gpu;
use crate::ops::{Attention, Dtype, Gemm, Layout, Op, Pass};
use crate::request::{Size, Sizes, json};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use utoipa::openapi::schema::{OneOfBuilder, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The most bytes that one operator moves, more than the memory of any machine.
const MOST_BYTES: f64 = (1_u64 << 50) as f64;

/// The operator, unless no machine holds its operands.
fn held(op: Op) -> Result<Op> {
    if let Some(dtype) = op.dtype()
        && let Some(dimension) = op.dimension("dtype")
        && let Err(allowed) = dimension.domain.parse(dtype.name())
    {
        return Err(Error::field(op.kind(), "dtype", dtype, &allowed));
    }
    let bytes = op.bytes();
    match bytes.bytes() <= MOST_BYTES {
        true => Ok(op),
        false => Err(Error::usage(format!(
            "{op}: the operator moves {bytes}; allowed: at most 1 PiB, so smaller sizes"
        ))),
    }
}

/// A request about one operator.
pub trait OperatorRequest: DeserializeOwned + ToSchema + Send + 'static {
    /// The operator; fails where its sizes do not go together.
    fn op(&self, sizes: &mut Sizes) -> Result<Op>;
}

/// The most operators of one batch.
const MOST_OPS: usize = 10_000;

/// Many operators on one GPU.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// The operators; they are answered in this order.
    #[schema(value_type = Vec<AnyOperator>, min_items = 1, max_items = 10_000)]
    pub ops: Vec<Value>,
}

impl BatchRequest {
    /// The operators.
    pub fn ops(self, gpu: &Gpu) -> Result<Vec<Op>> {
        let found = self.ops.len();
        if !(1..=MOST_OPS).contains(&found) {
            let allowed = format!("1 to {MOST_OPS}");
            return Err(Error::field(json::PLACE, "ops", format!("{found} long"), &allowed));
        }
        let read = |(at, op)| {
            read_operator(gpu, op).map_err(|error| match error.field_error() {
                Some(FieldError { field, value, allowed }) => {
                    Error::field(json::PLACE, &format!("ops[{at}].{field}"), value, allowed)
                }
                None => Error::usage(format!("`ops[{at}]`: {error}")),
            })
        };
        self.ops.into_iter().enumerate().map(read).collect()
    }
}

/// One operator of a batch, of the kind that `kind` names.
struct AnyOperator;

impl PartialSchema for AnyOperator {
    fn schema() -> RefOr<Schema> {
        // It stays one object: one that takes no other keys cannot be added to.
        let of_kind = |kind: &str, mut schema: RefOr<Schema>| {
            if let RefOr::T(Schema::Object(object)) = &mut schema {
                let only = ObjectBuilder::new().schema_type(Type::String);
                let only = only.enum_values(Some([kind]));
                object.properties.insert("kind".to_owned(), only.into());
                object.required.push("kind".to_owned());
            }
            schema
        };
        OneOfBuilder::new()
            .item(of_kind("gemm", GemmRequest::schema()))
            .item(of_kind("attention", AttentionRequest::schema()))
            .description(Some("One operator of a batch, of the kind that `kind` names."))
            .into()
    }
}

impl ToSchema for AnyOperator {
    fn name() -> Cow<'static, str> {
        "OperatorRequest".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        GemmRequest::schemas(schemas);
        AttentionRequest::schemas(schemas);
    }
}

/// The operator of an object whose key `kind` says which request it holds.
fn read_operator(gpu: &Gpu, body: Value) -> Result<Op> {
    fn read<R: OperatorRequest>(gpu: &Gpu, body: Value) -> Result<Op> {
        let request: R = json::plain(body)?;
        Sizes::fixed(gpu, |sizes| request.op(sizes))
    }
    let (kind, body) = json::kind_of(body);
    match kind.as_ref().and_then(Value::as_str) {
        Some("gemm") => read::<GemmRequest>(gpu, body),
        Some("attention") => read::<AttentionRequest>(gpu, body),
        _ => Err(json::other_kind(kind, "`gemm` or `attention`")),
    }
}

/// A GEMM (m, k) x (k, n).
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct GemmRequest {
    /// Rows of the left operand and of the product.
    #[arg(short)]
    pub m: Size,
    /// Columns of the right operand and of the product.
    #[arg(short)]
    pub n: Size,
    /// The reduction: columns of the left operand, rows of the right one.
    #[arg(short)]
    pub k: Size,
    /// Independent GEMMs in one call.
    #[arg(long = "batch-count", default_value_t, value_name = "B")]
    #[serde(default)]
    #[schema(default = 1)]
    pub batch: Size,
    /// Which operand is stored transposed, in cuBLAS terms; a linear layer runs forward as tn,
    /// its input gradient as nn, its weight gradient as nt.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "tn")]
    pub layout: Layout,
    /// Number format of the operands [default: bf16, or fp16 on a GPU without units for it].
    #[arg(long)]
    pub dtype: Option<Dtype>,
}

impl OperatorRequest for GemmRequest {
    fn op(&self, sizes: &mut Sizes) -> Result<Op> {
        held(Op::Gemm(Gemm {
            m: sizes.number("m", self.m),
            n: sizes.number("n", self.n),
            k: sizes.number("k", self.k),
            batch: sizes.number("batch", self.batch),
            layout: self.layout,
            dtype: sizes.dtype(self.dtype),
        }))
    }
}

/// A fused (flash) attention.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct AttentionRequest {
    /// Sequences.
    #[arg(long, value_name = "B")]
    pub batch: Size,
    /// Query heads.
    #[arg(long, value_name = "H")]
    pub heads: Size,
    /// Key/value heads, a divisor of the query heads [default: as many as query heads].
    #[arg(long, value_name = "G")]
    pub kv_heads: Option<Size>,
    /// Queries per sequence; 1 is a decoding step.
    #[arg(long = "seq", value_name = "S")]
    pub seq_q: Size,
    /// Keys per sequence, cached ones included [default: as many as queries].
    #[arg(long = "kv-seq", value_name = "C")]
    pub seq_kv: Option<Size>,
    /// Width of a query and key head.
    #[arg(long, value_name = "D")]
    pub head_dim: Size,
    /// Width of a value head; multi-head latent attention has another than of queries and keys [default: as head_dim].
    #[arg(long, value_name = "D")]
    pub value_dim: Option<Size>,
    /// Each query sees only the keys up to its own position.
    #[arg(long)]
    #[serde(default)]
    pub causal: bool,
    /// The most keys that each query sees, a sliding window; 0 is all.
    #[arg(long, default_value_t, value_name = "W")]
    #[serde(default)]
    #[schema(default = 0)]
    pub window: Size<0>,
    /// Forward or backward.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "forward")]
    pub pass: Pass,
    /// Number format of queries, keys and values [default: bf16, or fp16 on a GPU without units for it].
    #[arg(long)]
    pub dtype: Option<Dtype>,
}

impl OperatorRequest for AttentionRequest {
    fn op(&self, sizes: &mut Sizes) -> Result<Op> {
        let heads = sizes.number("heads", self.heads);
        let seq_q = sizes.number("seq_q", self.seq_q);
        let head_dim = sizes.number("head_dim", self.head_dim);
        let attention = Attention {
            batch: sizes.number("batch", self.batch),
            heads,
            kv_heads: sizes.option("kv_heads", self.kv_heads).unwrap_or(heads),
            seq_q,
            seq_kv: sizes.option("seq_kv", self.seq_kv).unwrap_or(seq_q),
            head_dim,
            value_dim: sizes.option("value_dim", self.value_dim).unwrap_or(head_dim),
            causal: self.causal,
            window: sizes.number("window", self.window),
            pass: self.pass,
            dtype: sizes.dtype(self.dtype),
        };
        if let Some((field, value, allowed)) = attention.misfit() {
            return Err(Error::field("attention", field, value, &allowed));
        }
        held(Op::Attention(attention))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_operator_that_no_machine_holds_is_refused() {
        let refused = |body| read_operator(Gpu::find("h100").unwrap(), body).unwrap_err().to_string();
        let attention =
            json!({"kind": "attention", "batch": 1, "heads": 8, "seq_q": 64, "head_dim": 64, "dtype": "nvfp4"});
        assert_eq!(
            refused(attention),
            "attention: `dtype` is nvfp4; allowed: fp32, tf32, fp16, bf16, fp8"
        );
        let most = 1_u64 << 32;
        let text = refused(json!({"kind": "gemm", "m": most, "n": most, "k": 1}));
        assert!(text.contains("at most 1 PiB"), "{text}");
        let wide = |head_dim, value_dim| {
            json!({"kind": "attention", "batch": 1, "heads": 32, "seq_q": 4096, "head_dim": head_dim,
                "value_dim": value_dim})
        };
        let text = refused(wide(1 << 20, 128));
        assert!(text.contains("`head_dim` is 1048576; allowed: at most 4096"), "{text}");
        assert!(refused(wide(128, 4097)).contains("`value_dim` is 4097"));
        assert!(read_operator(Gpu::find("h100").unwrap(), wide(4096, 4096)).is_ok());
        let many = json!({"kind": "attention", "batch": most, "heads": 64, "seq_q": 1 << 20, "head_dim": 128});
        assert!(refused(many).contains("moves"));
    }
}
