//! The document of the API against the readers of bodies: every value that a schema names is one that is taken.

use serde_json::{Map, Value, json};
use shapewise::request::json::{self, Bodied};
use shapewise::request::{
    AttentionRequest, BatchRequest, CalibrateRequest, GemmRequest, GraphRequest, ModelRequest, SearchRequest,
    StepRequest,
};
use shapewise::serve::App;
use shapewise::serve::limits::Limits;
use shapewise::serve::router;
use tower::ServiceExt;

/// The document of the API.
async fn document() -> Value {
    let router = router(App::new(Limits::default(), |_| {}), &[]).unwrap();
    let request = axum::http::Request::get("/openapi.json");
    let request = request.body(axum::body::Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    serde_json::from_slice(&bytes.unwrap()).unwrap()
}

/// A schema without the references around it.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => resolved(document, document.pointer(&reference[1..]).expect("it leads somewhere")),
        None => schema,
    }
}

/// Values that a schema names: what it lists, its ends, its examples and its default, and those of its parts.
fn named(document: &Value, schema: &Value) -> Vec<Value> {
    let mut values = Vec::new();
    for schema in [schema, resolved(document, schema)] {
        for key in ["enum", "examples"] {
            values.extend(schema[key].as_array().into_iter().flatten().cloned());
        }
        let single = ["minimum", "maximum", "default"].map(|key| schema.get(key));
        values.extend(single.into_iter().flatten().cloned());
    }
    let schema = resolved(document, schema);
    for part in schema["oneOf"].as_array().into_iter().flatten() {
        values.extend(named(document, part));
    }
    for (key, part) in properties(schema) {
        values.extend(named(document, part).into_iter().map(|value| json!({key: value})));
    }
    if let Some(item) = schema.get("items") {
        values.extend(named(document, item).into_iter().map(|value| json!([value])));
    }
    match schema["type"].as_str() {
        Some("boolean") => values.extend([json!(true), json!(false)]),
        Some("null") => values.push(Value::Null),
        _ => {}
    }
    values
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// Puts every named value of every field into `base`; returns how many there were.
fn takes<R: Bodied>(document: &Value, schema: &str, base: &Value) -> usize {
    let schema = &document["components"]["schemas"][schema];
    assert_eq!(schema["additionalProperties"], false, "{schema}");
    let mut tried = 0;
    for (field, part) in properties(schema) {
        for value in named(document, part) {
            let mut fields: Map<String, Value> = base.as_object().unwrap().clone();
            fields.insert(field.clone(), value);
            let text = json!(fields).to_string();
            if let Err(refused) = json::body::<R>(Value::Object(fields)) {
                panic!("{text}: {refused}");
            }
            tried += 1;
        }
    }
    tried
}

#[tokio::test]
async fn what_the_document_allows_is_taken() {
    let document = document().await;
    let gemm = json!({"m": 8, "n": 8, "k": 8});
    let attention = json!({"batch": 1, "heads": 8, "seq_q": 8, "head_dim": 8});
    let model = json!({"architecture": "gpt2"});
    let tried = [
        takes::<GemmRequest>(&document, "GemmRequest", &gemm),
        takes::<AttentionRequest>(&document, "AttentionRequest", &attention),
        takes::<BatchRequest>(&document, "BatchRequest", &json!({"ops": []})),
        takes::<ModelRequest>(&document, "ModelRequest", &model),
        takes::<StepRequest>(&document, "StepRequest", &model),
        takes::<GraphRequest>(&document, "GraphRequest", &json!({})),
        takes::<SearchRequest>(&document, "SearchRequest", &json!({})),
        takes::<CalibrateRequest>(&document, "CalibrateRequest", &json!({})),
        takes::<GemmRequest>(&document, "SweptGemmRequest", &gemm),
        takes::<AttentionRequest>(&document, "SweptAttentionRequest", &attention),
        takes::<ModelRequest>(&document, "SweptModelRequest", &model),
    ];
    assert!(tried.iter().all(|tried| *tried > 2), "{tried:?}");
}

/// Whether a schema lets a string such as `8:64:8` through somewhere.
fn takes_ranges(document: &Value, schema: &str, path: &[&str]) -> bool {
    let mut schema = &document["components"]["schemas"][schema];
    for key in path {
        schema = &schema["properties"][key];
    }
    named(document, schema).contains(&json!("1536:6144:64"))
}

#[tokio::test]
async fn sizes_are_ranges_in_sweeps_alone() {
    let document = document().await;
    for (request, sizes) in [
        ("GemmRequest", &["m", "n", "k", "batch"][..]),
        (
            "AttentionRequest",
            &[
                "batch",
                "heads",
                "kv_heads",
                "seq_q",
                "seq_kv",
                "head_dim",
                "value_dim",
                "window",
            ],
        ),
        (
            "ModelRequest",
            &["layers", "hidden", "heads", "kv_heads", "d_ff", "vocab"],
        ),
        (
            "WorkloadRequest",
            &["batch", "seq", "context", "tp", "pp", "dp", "microbatches"],
        ),
    ] {
        for size in sizes {
            let swept = format!("Swept{request}");
            assert!(takes_ranges(&document, &swept, &[size]), "{swept}: {size}");
            assert!(!takes_ranges(&document, request, &[size]), "{request}: {size}");
        }
    }
    let schemas = &document["components"]["schemas"];
    let workload = |model: &str| schemas[model]["properties"]["workload"].to_string();
    assert!(workload("ModelRequest").contains("/WorkloadRequest"));
    assert!(workload("SweptModelRequest").contains("/SweptWorkloadRequest"));
    let defaults = &schemas["WorkloadRequest"]["properties"];
    for (key, default) in [("mode", json!("train")), ("tp", json!(1)), ("zero", json!(0))] {
        assert_eq!(defaults[key]["default"], default, "{defaults}");
    }
}
