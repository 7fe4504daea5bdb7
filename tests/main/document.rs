//! The document of the API against the readers of bodies: every value that a schema names is one that is taken.

use serde_json::{Map, Value, json};
use shapewise::serve::App;
use shapewise::serve::body;
use shapewise::serve::limits::Limits;
use shapewise::serve::router;
use shapewise::serve::wire;
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
        Some(reference) => resolved(
            document,
            document
                .pointer(&reference[1..])
                .expect("it leads somewhere"),
        ),
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
        values.extend(
            named(document, part)
                .into_iter()
                .map(|value| json!({key: value})),
        );
    }
    if let Some(item) = schema.get("items") {
        values.extend(
            named(document, item)
                .into_iter()
                .map(|value| json!([value])),
        );
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
fn takes<Q: wire::Question>(document: &Value, schema: &str, base: &Value) -> usize {
    let schema = &document["components"]["schemas"][schema];
    assert_eq!(schema["additionalProperties"], false, "{schema}");
    let mut tried = 0;
    for (field, part) in properties(schema) {
        for value in named(document, part) {
            let mut fields: Map<String, Value> = base.as_object().unwrap().clone();
            fields.insert(field.clone(), value);
            let text = Value::Object(fields).to_string();
            if let Err(problem) = body::read::<Q>(text.as_bytes(), None) {
                panic!("{text}: {problem:?}");
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
    let attention = json!({"batch": 1, "heads": 8, "seq": 8, "head_dim": 8});
    let model = json!({"architecture": "gpt2"});
    let tried = [
        takes::<wire::Gemm>(&document, "Gemm", &gemm),
        takes::<wire::Attention>(&document, "Attention", &attention),
        takes::<wire::Batch>(&document, "Batch", &json!({"ops": []})),
        takes::<wire::Model>(&document, "Model", &model),
        takes::<wire::Search>(&document, "Search", &json!({})),
        takes::<wire::SweptGemm>(&document, "SweptGemm", &gemm),
        takes::<wire::SweptAttention>(&document, "SweptAttention", &attention),
        takes::<wire::SweptModel>(&document, "SweptModel", &model),
    ];
    assert!(tried.iter().all(|tried| *tried > 2), "{tried:?}");
}
