//! Configs as published read as the preset of the same model, and anything doubtful is refused.

use super::super::{KvCacheDtype, Positions, Practice, Preset, Recipe, Workload, memory_use, parameters};
use super::*;
use crate::gpu::Gpu;
use crate::ops::Dtype;
use serde::Deserialize;
use serde_json::json;

/// A model that is often downloaded: its config, and how many parameters its decoder has or why it is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Downloaded {
    model: String,
    /// Of the model that `transformers` 5.23 builds from this config, tied weights once, without what sees or hears and
    /// with the correction of the router.
    #[serde(default)]
    parameters: Option<u64>,
    #[serde(default)]
    refused: Option<String>,
    config: Value,
}

/// The text-generation architectures that are downloaded most, the sizes of each from one published model.
fn downloaded() -> Vec<Downloaded> {
    serde_json::from_str(include_str!("tests/downloaded.json")).unwrap()
}

#[test]
fn what_is_downloaded_most_has_its_parameters_or_is_refused_with_its_own_reason() {
    let mut wrong = Vec::new();
    for entry in downloaded() {
        let read = read_object(&entry.config, "x", "config.json");
        match (read, entry.parameters, entry.refused) {
            (Ok(arch), Some(published), None) => {
                let total = parameters(&arch).total;
                if total != published {
                    wrong.push(format!("{}: {total}, not {published}", entry.model));
                }
            }
            (Err(error), None, Some(reason)) if error.to_string().contains(&reason) => {}
            (read, ..) => wrong.push(format!("{}: {:?}", entry.model, read.err())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_architecture_of_our_own_keys_is_read_as_it_is_and_a_wrong_key_is_refused() {
    let mut preset = Preset::find("opt-2.7b").unwrap().architecture.clone();
    preset.positions = Positions::None;
    preset.tied_embeddings = false;
    let mut own = serde_json::to_value(&preset).unwrap();
    assert_eq!(read_object(&own, "x", "own.json").unwrap(), preset);
    own["depth"] = json!(3);
    let refused = read_object(&own, "x", "own.json").unwrap_err().to_string();
    assert!(refused.starts_with("own.json: unknown field `depth`"), "{refused}");
    own.as_object_mut().unwrap().remove("depth");
    own["layers"] = json!(0);
    let refused = read_object(&own, "x", "own.json").unwrap_err().to_string();
    assert!(
        refused.starts_with("own.json: ") && refused.contains("layers"),
        "{refused}"
    );
}

/// Published configs without the fields that shape nothing, and the preset each must equal.
const PUBLISHED: &[(&str, &str)] = &[
    (
        "gpt2",
        r#"{"model_type":"gpt2","activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],
        "attn_pdrop":0.1,"bos_token_id":50256,"n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,
        "n_positions":1024,"vocab_size":50257}"#,
    ),
    (
        "pythia-1b",
        r#"{"model_type":"gpt_neox","hidden_act":"gelu","hidden_size":2048,"intermediate_size":8192,
        "num_attention_heads":8,"num_hidden_layers":16,"rotary_emb_base":10000,"rotary_pct":0.25,
        "tie_word_embeddings":false,"use_parallel_residual":true,"vocab_size":50304}"#,
    ),
    (
        "llama-2-70b",
        r#"{"model_type":"llama","hidden_act":"silu","hidden_size":8192,"intermediate_size":28672,
        "num_attention_heads":64,"num_hidden_layers":80,"num_key_value_heads":8,"rope_scaling":null,
        "pretraining_tp":1,"tie_word_embeddings":false,"vocab_size":32000}"#,
    ),
    (
        "llama-3.2-3b",
        r#"{"model_type":"llama","attention_bias":false,"head_dim":128,"hidden_act":"silu","hidden_size":3072,
        "intermediate_size":8192,"mlp_bias":false,"num_attention_heads":24,"num_hidden_layers":28,
        "num_key_value_heads":8,"tie_word_embeddings":true,"vocab_size":128256,
        "rope_scaling":{"factor":32.0,"rope_type":"llama3"}}"#,
    ),
    (
        "mistral-7b-v0.1",
        r#"{"model_type":"mistral","hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,
        "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"sliding_window":4096,
        "vocab_size":32000}"#,
    ),
    (
        "mistral-7b-v0.3",
        r#"{"model_type":"mistral","hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,
        "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"sliding_window":null,
        "vocab_size":32768}"#,
    ),
    (
        "mixtral-8x7b",
        r#"{"model_type":"mixtral","hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,
        "num_attention_heads":32,"num_experts_per_tok":2,"num_hidden_layers":32,"num_key_value_heads":8,
        "num_local_experts":8,"router_aux_loss_coef":0.02,"sliding_window":null,"vocab_size":32000}"#,
    ),
    (
        "qwen2.5-7b",
        r#"{"model_type":"qwen2","hidden_act":"silu","hidden_size":3584,"intermediate_size":18944,
        "max_window_layers":28,"num_attention_heads":28,"num_hidden_layers":28,"num_key_value_heads":4,
        "sliding_window":131072,"tie_word_embeddings":false,"use_mrope":false,"use_sliding_window":false,
        "vocab_size":152064}"#,
    ),
    (
        "qwen3-0.6b",
        r#"{"model_type":"qwen3","attention_bias":false,"head_dim":128,"hidden_act":"silu","hidden_size":1024,
        "intermediate_size":3072,"max_window_layers":28,"num_attention_heads":16,"num_hidden_layers":28,
        "num_key_value_heads":8,"sliding_window":null,"tie_word_embeddings":true,"use_sliding_window":false,
        "vocab_size":151936}"#,
    ),
    (
        "qwen3-30b-a3b",
        r#"{"model_type":"qwen3_moe","attention_bias":false,"decoder_sparse_step":1,"head_dim":128,
        "hidden_act":"silu","hidden_size":2048,"intermediate_size":6144,"max_window_layers":48,
        "mlp_only_layers":[],"moe_intermediate_size":768,"norm_topk_prob":true,"num_attention_heads":32,
        "num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":48,"num_key_value_heads":4,
        "sliding_window":null,"tie_word_embeddings":false,"use_sliding_window":false,"vocab_size":151936}"#,
    ),
    (
        "gemma-2b",
        r#"{"model_type":"gemma","head_dim":256,"hidden_act":"gelu","hidden_size":2048,
        "intermediate_size":16384,"num_attention_heads":8,"num_hidden_layers":18,"num_key_value_heads":1,
        "vocab_size":256000}"#,
    ),
    (
        "gemma-2-9b",
        r#"{"model_type":"gemma2","attn_logit_softcapping":50.0,"final_logit_softcapping":30.0,"head_dim":256,
        "hidden_act":"gelu_pytorch_tanh","hidden_activation":"gelu_pytorch_tanh","hidden_size":3584,
        "intermediate_size":14336,"num_attention_heads":16,"num_hidden_layers":42,"num_key_value_heads":8,
        "query_pre_attn_scalar":256,"sliding_window":4096,"sliding_window_size":4096,"vocab_size":256000}"#,
    ),
    (
        "gemma-3-1b",
        r#"{"model_type":"gemma3_text","attention_bias":false,"head_dim":256,
        "hidden_activation":"gelu_pytorch_tanh","hidden_size":1152,"intermediate_size":6912,
        "num_attention_heads":4,"num_hidden_layers":26,"num_key_value_heads":1,"query_pre_attn_scalar":256,
        "rope_local_base_freq":10000,"sliding_window":512,"sliding_window_pattern":6,"vocab_size":262144}"#,
    ),
    (
        "deepseek-v3",
        r#"{"model_type":"deepseek_v3","attention_bias":false,"aux_loss_alpha":0.001,"ep_size":1,
        "first_k_dense_replace":3,"hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,
        "kv_lora_rank":512,"moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":8,"n_routed_experts":256,
        "n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":128,"num_experts_per_tok":8,
        "num_hidden_layers":61,"num_key_value_heads":128,"num_nextn_predict_layers":1,"q_lora_rank":1536,
        "qk_nope_head_dim":128,"qk_rope_head_dim":64,"quantization_config":{"quant_method":"fp8"},
        "routed_scaling_factor":2.5,"scoring_func":"sigmoid","seq_aux":true,"tie_word_embeddings":false,
        "topk_group":4,"topk_method":"noaux_tc","v_head_dim":128,"vocab_size":129280}"#,
    ),
    (
        "olmo-2-7b",
        r#"{"model_type":"olmo2","attention_bias":false,"hidden_act":"silu","hidden_size":4096,
        "intermediate_size":11008,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":32,
        "tie_word_embeddings":false,"vocab_size":100352}"#,
    ),
    (
        "mpt-7b",
        r#"{"model_type":"mpt","attn_config":{"alibi":true,"alibi_bias_max":8,"attn_impl":"torch",
        "attn_pdrop":0,"attn_type":"multihead_attention","attn_uses_sequence_id":false,"clip_qkv":null,
        "prefix_lm":false,"qk_ln":false,"softmax_scale":null},"d_model":4096,"expansion_ratio":4,
        "learned_pos_emb":true,"logit_scale":null,"max_seq_len":2048,"n_heads":32,"n_layers":32,"no_bias":true,
        "norm_type":"low_precision_layernorm","tokenizer_name":"EleutherAI/gpt-neox-20b","vocab_size":50432}"#,
    ),
    (
        "opt-2.7b",
        r#"{"model_type":"opt","activation_function":"relu","do_layer_norm_before":true,"dropout":0.1,
        "ffn_dim":10240,"hidden_size":2560,"max_position_embeddings":2048,"num_attention_heads":32,
        "num_hidden_layers":32,"prefix":"</s>","vocab_size":50272,"word_embed_proj_dim":2560}"#,
    ),
];

#[test]
fn published_configs_equal_their_presets() {
    for (name, text) in PUBLISHED {
        let mut read = parse_config(text, name, "config.json").unwrap();
        read.stated = Stated::default();
        assert_eq!(read, Preset::find(name).unwrap().architecture);
    }
}

#[test]
fn every_type_that_decodes_text_has_a_published_example() {
    // Equal to a type that has one, or the text model of a wrapper.
    const ALIKE: &[&str] = &[
        "bailing_moe_v2",
        "bailing_moe_v2_5",
        "deci",
        "deepseek_ref",
        "glm4v_moe_text",
        "glm4v_text",
        "gpt-sw3",
        "internlm",
        "mimo",
        "minimax_m3",
        "minimax_text_01",
        "qwen2_5_omni_text",
        "qwen2_5_vl_text",
        "qwen2_vl_text",
        "qwen3_omni_moe_text",
        "qwen3_vl_moe_text",
    ];
    let (downloaded, seldom) = (downloaded(), seldom());
    let examples: Vec<String> = downloaded
        .iter()
        .flat_map(|entry| [&entry.config, &entry.config["text_config"]])
        .chain(seldom.iter().map(|(_, config)| config))
        .filter_map(|config| config["model_type"].as_str().map(str::to_owned))
        .collect();
    for name in table().types.keys() {
        let is_shown = examples.iter().any(|example| example == name);
        assert!(is_shown != ALIKE.contains(&&**name), "{name}");
    }
}

#[test]
fn no_type_is_named_twice() {
    let refused = table().lists.refused.iter().flat_map(|row| &row.types);
    let mut names: Vec<_> = types().chain(refused.map(String::as_str)).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    for text in table().lists.text_config.values() {
        assert!(table().find(text).is_some(), "{text}");
    }
}

/// One field of every config holds what it should not: it is read or refused, and what is read can be counted.
#[test]
fn no_damaged_config_panics() {
    let odd = [
        "null",
        "0",
        "1",
        "-1",
        "7",
        "1e300",
        "18446744073709551615",
        "true",
        "\"x\"",
        "[]",
        "[0]",
        "{}",
    ];
    let odd: Vec<Value> = odd.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let mut read = 0;
    for entry in downloaded() {
        let mut damaged = |config: &Value, place: &str| {
            let keys = config.pointer(place).and_then(Value::as_object);
            let keys: Vec<String> = keys.into_iter().flat_map(|object| object.keys().cloned()).collect();
            for (key, value) in keys.iter().flat_map(|key| odd.iter().map(move |value| (key, value))) {
                let mut config = config.clone();
                *config.pointer_mut(&format!("{place}/{key}")).unwrap() = value.clone();
                if let Ok(arch) = read_object(&config, "x", "config.json") {
                    assert!(parameters(&arch).total > 0);
                    read += 1;
                }
            }
        };
        damaged(&entry.config, "");
        damaged(&entry.config, "/text_config");
    }
    assert!(read > 1000, "{read}");
}

const TRAINING: Workload = Workload::train(1, 1);

/// What an answer says about the config of this model.
fn notes(model: &str, work: Workload) -> String {
    let all = downloaded();
    let entry = all.iter().find(|entry| entry.model == model).unwrap();
    let arch = read_object(&entry.config, "x", "config.json").unwrap();
    arch.stated.notes(&work).join("; ")
}

#[test]
fn what_a_config_says_is_contradicted_aloud_and_what_is_not_counted_is_said() {
    for (model, parts) in [
        (
            "deepseek-ai/DeepSeek-V3",
            &[
                "says fp8 in blocks of 128 x 128 (`quantization_config`)",
                "takes bf16",
                "token after the next",
            ][..],
        ),
        ("openai/gpt-oss-20b", &["says mxfp4", "takes bf16"]),
        ("facebook/opt-125m", &["says float16 (`torch_dtype`)"]),
        ("google/gemma-3-4b-it", &["what sees or hears is not counted"]),
        (
            "meta-llama/Llama-4-Scout-17B-16E-Instruct",
            &["in chunks", "no weights"],
        ),
    ] {
        let said = notes(model, TRAINING);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    let silent = ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B", "openai-community/gpt2"];
    for model in silent {
        assert_eq!(notes(model, TRAINING), "", "{model}");
    }
    let served = |dtype, recipe| {
        let work = Workload {
            dtype,
            recipe,
            ..Workload::decode(1, 100)
        };
        notes("deepseek-ai/DeepSeek-V3", work)
    };
    let wide = served(Dtype::Bf16, Recipe::Tensorwise);
    assert!(wide.contains("takes bf16, as was asked"), "{wide}");
    let stored = served(Dtype::Fp8, Recipe::Fp8Block);
    assert!(
        stored.starts_with("weights as stored, fp8 in blocks of 128 x 128"),
        "{stored}"
    );
    assert!(!stored.contains("16 bits") && !stored.contains("timed"), "{stored}");
    let unpacked = served(Dtype::Bf16, Recipe::W8a16);
    assert!(unpacked.contains("; timed as w8a16"), "{unpacked}");
}

/// Window size and windowed layers of a model that is often downloaded.
fn window_of(model: &str) -> Option<(u64, u64)> {
    let all = downloaded();
    let entry = all.iter().find(|entry| entry.model == model).unwrap();
    let arch = read_object(&entry.config, "x", "config.json").unwrap();
    arch.window.map(|window| (window.size, window.layers))
}

#[test]
fn every_way_of_sliding_is_read() {
    for (model, window) in [
        ("openai/gpt-oss-20b", Some((128, 12))),
        ("google/gemma-3-4b-it", Some((1024, 29))),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", Some((8192, 36))),
        ("CohereLabs/c4ai-command-r7b-12-2024", Some((4096, 24))),
        ("microsoft/Phi-3-mini-4k-instruct", Some((2047, 32))),
        ("EleutherAI/gpt-neo-125m", Some((256, 6))),
        ("LGAI-EXAONE/EXAONE-4.0-32B", Some((4096, 48))),
        ("microsoft/phi-4", None),
        ("HuggingFaceTB/SmolLM3-3B", None),
    ] {
        assert_eq!(window_of(model), window, "{model}");
    }
}

/// The Llama-2-70B example with one field replaced or added.
fn llama_with(key: &str, value: &str) -> Result<Architecture> {
    let text = PUBLISHED
        .iter()
        .find(|(name, _)| *name == "llama-2-70b")
        .map(|(_, text)| *text)
        .unwrap();
    let mut object: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap();
    object.insert(key.to_owned(), json::parse(value, "value").unwrap());
    parse_config(&Value::Object(object).to_string(), "x", "config.json")
}

#[test]
fn doubtful_configs_are_refused_with_file_field_value_and_what_is_allowed() {
    for (key, value, parts) in [
        (
            "model_type",
            r#""zamba2""#,
            ["`model_type` is \"zamba2\"", "state-space"],
        ),
        ("hidden_size", "null", ["`hidden_size` is null", "integer"]),
        ("hidden_size", "4096.5", ["`hidden_size` is 4096.5", "integer"]),
        ("num_key_value_heads", "7", ["`kv_heads` is 7", "divisor of heads = 64"]),
        ("num_hidden_layers", "0", ["`layers` is 0", "1 to"]),
        ("model_type", r#""lama""#, ["`model_type` is \"lama\"", "nearest llama"]),
        ("hidden_act", "7", ["`hidden_act` is 7", "silu"]),
        ("hidden_size", "Infinity", ["`hidden_size` is \"Infinity\"", "integer"]),
        (
            "num_local_experts",
            "8",
            ["`num_local_experts` is 8", "known for model_type `llama`"],
        ),
        ("attention_bias", "7", ["`attention_bias` is 7", "true or false"]),
        ("is_encoder_decoder", "true", ["`is_encoder_decoder` is true", "false"]),
    ] {
        let error = llama_with(key, value).unwrap_err();
        let message = error.to_string();
        assert!(error.is_bad_input() && message.starts_with("config.json"), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn what_says_nothing_is_no_obstacle() {
    for (key, value) in [
        ("something_new", "null"),
        ("qkv_bias", "false"),
        ("num_experts", "0"),
        ("kv_layers", "[]"),
        ("sink_size", "0.0"),
    ] {
        let read = llama_with(key, value).unwrap();
        assert!(read.stated.notes(&TRAINING).is_empty(), "{key}");
    }
    assert!(llama_with("qkv_bias", "true").is_err());
    for (key, value) in [
        ("max_sequence_length", "2048"),
        ("hidden_act", "\"xielu\""),
        ("time_limits", "[0.0, Infinity]"),
        ("my_note", "{\"author\": \"x\"}"),
    ] {
        let notes = llama_with(key, value).unwrap().stated.notes(&TRAINING);
        assert!(
            notes[0].contains(&format!("`{key}`")) && notes[0].contains("passed over"),
            "{notes:?}"
        );
    }
    let text = PUBLISHED[1].1.replace("\"gelu\"", "\"geglu\"");
    let gated = parse_config(&text, "x", "config.json").unwrap_err().to_string();
    assert!(gated.contains("`hidden_act` is \"geglu\""), "{gated}");
    let many = PUBLISHED[2].1.replace(
        "\"vocab_size\"",
        "\"n_loop_layers\":2,\"add_cross_attention\":true,\"ffn_kind\":\"x\",\"vocab_size\"",
    );
    let many = parse_config(&many, "x", "config.json").unwrap_err().to_string();
    for part in [
        "`add_cross_attention` is true",
        "`n_loop_layers` (2)",
        "`ffn_kind` (\"x\")",
    ] {
        assert!(many.contains(part), "{many}");
    }
    let packed = llama_with("quantization", r#"{"bits":4,"group_size":64}"#).unwrap();
    let notes = packed.stated.notes(&TRAINING);
    assert!(notes[0].contains("with 4 bits (`quantization`)"), "{notes:?}");
}

#[test]
fn layer_types_decide_which_layers_slide() {
    let text = r#"{"model_type":"qwen3","hidden_size":1024,"intermediate_size":3072,"num_attention_heads":16,
        "num_hidden_layers":3,"num_key_value_heads":8,"vocab_size":1000,"use_sliding_window":true,
        "sliding_window":512,"layer_types":["full_attention","sliding_attention","full_attention"]}"#;
    let window = parse_config(text, "x", "config.json").unwrap().window.unwrap();
    assert_eq!((window.size, window.layers), (512, 1));
    let broken = text.replace("sliding_attention", "linear_attention");
    assert!(parse_config(&broken, "x", "config.json").is_err());
}

#[test]
fn a_model_is_named_after_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my-model/config.json");
    crate::error::write_atomically(&path, PUBLISHED[0].1.as_bytes()).unwrap();
    assert_eq!(read_config(&path).unwrap().name, "my-model");
    let by_folder = Architecture::find(path.parent().unwrap().to_str().unwrap()).unwrap();
    assert_eq!(by_folder, read_config(&path).unwrap());
}

/// Configs of types and writers that are seldom seen, with the parameters that `transformers` 5.24 builds of them; of Ling what
/// its cards say, of nemotron-nas and OpenELM what the code of its models says.
fn seldom() -> Vec<(u64, Value)> {
    let all = json::parse(include_str!("tests/seldom.json"), "seldom.json");
    serde_json::from_value(all.unwrap()).unwrap()
}

#[test]
fn seldom_types_and_harmless_fields_have_their_parameters() {
    let wrong: Vec<_> = seldom()
        .into_iter()
        .filter_map(|(count, config)| {
            let read = read_object(&config, "x", "config.json").map(|arch| parameters(&arch).total);
            let read = read.map_err(|error| error.to_string());
            (read != Ok(count)).then(|| (config["model_type"].to_string(), count, read))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_hybrid_type_without_hybrid_layers_is_what_it_is() {
    let arch = |pattern: &str| {
        let config = json!({"model_type": "nemotron_h", "hidden_size": 512, "hybrid_override_pattern": pattern,
            "intermediate_size": 2048, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000});
        read_object(&config, "x", "config.json")
    };
    let plain = arch("*-*-").unwrap();
    assert!(plain.linear.is_none() && plain.attention_layers() == 2);
    assert!(arch("M-*-").unwrap().linear.is_some());
    let hybrid = json!({"model_type": "granitemoehybrid", "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8,
        "num_hidden_layers": 2, "shared_intermediate_size": 1024, "num_local_experts": 0, "vocab_size": 1000,
        "layer_types": ["mamba", "attention"]});
    let read = read_object(&hybrid, "x", "config.json").unwrap();
    assert_eq!((read.attention_layers(), read.linear.unwrap().layers), (1, 1));
}

#[test]
fn unknown_types_are_told_their_family_and_llama_only_where_it_would_be_read() {
    let refused = |model_type: &str, key: &str, value: &str| {
        let mut object: Value = serde_json::from_str(PUBLISHED[2].1).unwrap();
        object["model_type"] = model_type.into();
        object[key] = serde_json::from_str(value).unwrap();
        read_object(&object, "x", "config.json").unwrap_err().to_string()
    };
    let plain = refused("baichuan", "vocab_size", "32000");
    assert!(
        plain.contains("may be read as \"llama\"") && !plain.contains("nearest"),
        "{plain}"
    );
    for (key, value) in [("hidden_act", "\"relu2\""), ("num_experts", "8"), ("hidden_size", "0")] {
        let other = refused("baichuan", key, value);
        assert!(!other.contains("llama"), "{other}");
    }
    for (unknown, near) in [
        ("qwen9_next", "qwen3_next"),
        ("exaone9", "exaone4"),
        ("olmo9", "olmo2"),
        ("mistrall", "mistral"),
    ] {
        let said = refused(unknown, "num_experts", "8");
        assert!(said.contains(near), "{said}");
    }
    for unknown in ["bert_generation", "big_bird", "x"] {
        let said = refused(unknown, "num_experts", "8");
        assert!(!said.contains("nearest"), "{said}");
    }
}

/// Bytes of the weights of a preset, or of a config, as its quantization stores them.
fn stored_bytes(config: &Value, quantization: &Value) -> f64 {
    let arch = match config.as_str() {
        Some(preset) => {
            let mut arch = Preset::find(preset).unwrap().architecture.clone();
            arch.stated = Stated::published(quantization, &arch, None);
            arch
        }
        None => {
            let mut config = config.clone();
            config["quantization_config"] = quantization.clone();
            read_object(&config, "x", "config.json").unwrap()
        }
    };
    let (dtype, recipe) = arch.stated.stored().expect("a known format").format(None);
    let work = Workload {
        dtype,
        recipe,
        ..Workload::decode(1, 100)
    };
    memory_use(&arch, &work, &Practice::default()).unwrap().weights.bytes()
}

/// Sizes of published checkpoints: totals of their indices, or of their only file.
#[test]
fn quantized_checkpoints_have_their_published_size() {
    let fp8_blocks = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
    let awq = json!({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true, "modules_to_not_convert": null});
    let gptq = json!({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true, "desc_act": false});
    let nested = json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true});
    let pack = |weights: Value, inputs: Value| {
        let group = json!({"weights": weights, "input_activations": inputs, "targets": ["Linear"]});
        json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]})
    };
    let w4a16 = pack(
        json!({"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group", "symmetric": true}),
        Value::Null,
    );
    let fp8 = pack(
        json!({"num_bits": 8, "type": "float", "strategy": "tensor"}),
        json!({"num_bits": 8, "type": "float"}),
    );
    let excluded = json!({"quant_method": "mxfp4", "modules_to_not_convert":
        ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]});
    for (preset, quantization, gigabytes, within) in [
        ("gpt-oss-120b", &excluded, 65.248_815_744, 1e-9),
        ("gpt-oss-20b", &json!({"quant_method": "mxfp4"}), 13.761_264_768, 1e-9),
        // Without the 15.4 GB of the layer that predicts the token after the next.
        ("deepseek-v3", &fp8_blocks, 688.587 - 15.4, 0.002),
        ("qwen3-14b", &awq, 9.975, 0.003),
        ("qwen2.5-7b", &awq, 5.57, 0.005),
        ("mistral-7b-v0.1", &awq, 4.15, 0.005),
        ("llama-2-7b", &gptq, 3.90, 0.005),
        ("llama-3-8b", &nested, 5.70, 0.005),
        ("llama-3-8b", &w4a16, 5.74, 0.01),
        ("llama-3-8b", &fp8, 9.08, 0.005),
        (
            "llama-3-70b",
            &json!({"quant_algo": "FP8", "exclude_modules": ["lm_head"]}),
            2.0 * 33.8 * 1.073_741_824,
            0.005,
        ),
    ] {
        let found = stored_bytes(&preset.into(), quantization) * 1e-9;
        assert!(
            (found / gigabytes - 1.0).abs() < within,
            "{preset} {quantization}: {found}"
        );
    }
}

#[test]
fn what_is_not_converted_stays_in_16_bits() {
    let config = json!({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 32000});
    let gib = |quantization: Value| stored_bytes(&config, &quantization) / f64::from(1 << 30);
    let names = |prefix: &str, parts: &[&str], layers: &[u64]| -> Vec<String> {
        let each = layers
            .iter()
            .flat_map(|layer| parts.iter().map(move |part| format!("{prefix}.{layer}.{part}")));
        each.collect()
    };
    let every: Vec<u64> = (0..16).collect();
    let attention = [
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
    ];
    let mlp = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"];
    let mut excluded = names("model.layers", &attention, &every);
    excluded.extend(names("model.layers", &mlp, &[0, 15]));
    let only_mlp = gib(json!({"quant_method": "fbgemm_fp8", "modules_to_not_convert": excluded}));
    assert!((only_mlp - 1.4005).abs() < 1e-3, "{only_mlp}");
    // The same as patterns, as expressions, and the other way about.
    for (key, list) in [
        (
            "ignore",
            json!([
                "re:.*self_attn.*",
                "re:model\\.layers\\.(0|15)\\.mlp.*",
                "lm_head",
                "re:visual.*layers.*"
            ]),
        ),
        (
            "exclude_modules",
            json!([
                "*self_attn*",
                "model.layers.0.*",
                "model.language_model.layers.15.mlp*",
                "mtp.layers.1*"
            ]),
        ),
        (
            "ignored_layers",
            json!(["self_attn", "layers.0", "layers.15.mlp", "gate"]),
        ),
    ] {
        let alike = gib(json!({"quant_method": "fp8", key: list}));
        assert!((alike - 1.4005).abs() < 1e-3, "{key}: {alike}");
    }
    let layers: serde_json::Map<String, Value> = names("language_model.model.layers", &mlp, &every[1..15])
        .into_iter()
        .map(|name| (name, json!({"quant_algo": "FP8"})))
        .collect();
    let listed = gib(json!({"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}));
    assert!((listed - 1.4005).abs() < 1e-3, "{listed}");
    assert!(gib(json!({"quant_method": "fp8"})) < 1.16);
}

#[test]
fn formats_of_every_method_are_read() {
    let arch = &Preset::find("llama-3-8b").unwrap().architecture;
    for (config, dtype) in [
        (json!({"quant_method": "fp8"}), Some(Dtype::Fp8)),
        (json!({"quant_algo": "NVFP4"}), Some(Dtype::Nvfp4)),
        (json!({"quant_algo": "W4A16_AWQ"}), Some(Dtype::W4a16)),
        (
            json!({"quant_method": "gptq", "bits": 8, "group_size": -1}),
            Some(Dtype::W8a16),
        ),
        (
            json!({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": true}),
            Some(Dtype::W4a16),
        ),
        (
            json!({"quant_method": "bitsandbytes", "load_in_8bit": true}),
            Some(Dtype::W8a16),
        ),
        (
            json!({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}),
            Some(Dtype::W4a16),
        ),
        (
            json!({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}}}),
            Some(Dtype::W4a16),
        ),
        (
            json!({"quant_method": "torchao", "quant_type": "float8_dynamic_activation_float8_weight"}),
            Some(Dtype::Fp8),
        ),
        (
            json!({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}),
            Some(Dtype::Fp8),
        ),
        (json!({"bits": 4, "group_size": 64}), Some(Dtype::W4a16)),
        (json!({"quant_method": "aqlm"}), None),
        (json!({"quant_method": "compressed-tensors", "config_groups": 7}), None),
    ] {
        let stored = quantized::read(&config, arch);
        assert_eq!(stored.map(|stored| stored.dtype), dtype, "{config}");
    }
}

#[test]
fn an_adapter_is_no_model_and_compression_is_quantization() {
    let adapter = r#"{"peft_type":"LORA","r":16,"base_model_name_or_path":"meta-llama/Llama-3.1-8B"}"#;
    let said = parse_config(adapter, "x", "adapter_config.json")
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("`peft_type`") && said.contains("meta-llama/Llama-3.1-8B"),
        "{said}"
    );
    let group =
        r#"{"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{"num_bits":8,"type":"int"}}}}"#;
    let packed = llama_with("compression_config", group).unwrap();
    assert_eq!(packed.stated.stored().map(|stored| stored.dtype), Some(Dtype::W8a16));
}

#[test]
fn what_a_type_always_has_may_be_said_again() {
    let qwen = r#"{"model_type":"qwen3","hidden_size":1024,"intermediate_size":3072,"num_attention_heads":16,
        "num_hidden_layers":3,"num_key_value_heads":8,"vocab_size":1000,"use_qk_norm":true}"#;
    assert!(parse_config(qwen, "x", "config.json").is_ok());
    assert!(llama_with("use_qk_norm", "true").is_err());
}

#[test]
fn the_file_of_modelopt_beside_a_config_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        crate::error::write_atomically(&folder.path().join(name), text.as_bytes()).unwrap();
    };
    write("config.json", PUBLISHED[2].1);
    let beside = r#"{"producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}"#;
    write("hf_quant_config.json", beside);
    let arch = read_config(folder.path()).unwrap();
    assert_eq!(arch.stated.stored().map(|stored| stored.dtype), Some(Dtype::Fp8));
    let notes = arch.stated.notes(&TRAINING);
    assert!(notes[0].contains("modelopt FP8 (`hf_quant_config.json`)"), "{notes:?}");
    assert_eq!(served_caches(&arch), [Dtype::Fp8, Dtype::Bf16]);
}

/// The format of cached keys and values of a server that is asked for none, and for that of the activations.
fn served_caches(arch: &Architecture) -> [Dtype; 2] {
    [KvCacheDtype::Auto, KvCacheDtype::Bf16].map(|kv_cache_dtype| {
        let (dtype, recipe) = arch.stated.stored().unwrap().format(None);
        let work = Workload {
            dtype,
            recipe,
            kv_cache_dtype,
            ..Workload::decode(1, 128)
        };
        arch.on(Gpu::find("h100").unwrap(), &work).cache_dtype()
    })
}

#[test]
fn keys_and_values_are_cached_as_the_scheme_of_a_checkpoint_says() {
    let cached = |scheme: &str| {
        let config = format!(
            r#"{{"quant_method":"compressed-tensors","kv_cache_scheme":{scheme},"format":"float-quantized",
            "config_groups":{{"a":{{"weights":{{"num_bits":8,"type":"float"}}}}}}}}"#
        );
        served_caches(&llama_with("quantization_config", &config).unwrap())
    };
    assert_eq!(cached("null"), [Dtype::Bf16; 2]);
    assert_eq!(cached(r#"{"num_bits":8,"type":"float"}"#), [Dtype::Fp8, Dtype::Bf16]);
}

#[test]
fn lists_of_layers_and_widths_that_no_layer_has_are_refused() {
    let lfm2 = |key: &str, value: Value| {
        let mut config = json!({"model_type": "lfm2", "hidden_size": 512, "intermediate_size": 1600, "num_attention_heads": 8,
            "num_hidden_layers": 4, "num_key_value_heads": 2, "vocab_size": 1000, "full_attn_idxs": [1, 2]});
        config[key] = value;
        read_object(&config, "x", "config.json").map(|arch| arch.attention_layers())
    };
    assert_eq!(lfm2("full_attn_idxs", json!([3])).unwrap(), 1);
    for (key, value) in [
        ("full_attn_idxs", json!([1, 1])),
        ("full_attn_idxs", json!([4])),
        ("block_ffn_dim_multiplier", json!("1.0")),
        ("intermediate_size", json!(1_u64 << 63)),
        ("block_multiple_of", json!(u64::MAX)),
        ("hidden_size", json!(516)),
    ] {
        let error = lfm2(key, value.clone()).unwrap_err().to_string();
        assert!(error.starts_with("config.json: "), "{key} {value}: {error}");
    }
    let named = Architecture {
        name: "a\u{1f}b".to_owned(),
        ..Architecture::gpt(512, 2, 8)
    };
    assert!(named.validate().unwrap_err().to_string().contains("control characters"));
}

#[test]
fn blocks_beyond_the_bounds_are_refused_by_field() {
    let block = |multiple: f64| json!({"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": multiple}});
    let different: Vec<Value> = (1..=70).map(|one| block(f64::from(one))).collect();
    for (hidden, layers, blocks, part) in [
        (
            10_000_000_000_000_000_000_u64,
            2_u64,
            vec![block(900.0), block(1.0)],
            "`hidden` is 10000000000000000000",
        ),
        (4096, 1_000_000_000, vec![block(1.0)], "`layers` is 1000000000"),
        (4096, 3, vec![block(1.0)], "`block_configs`"),
        (1024, 70, different, "`kinds` is 69; allowed: at most 64"),
    ] {
        let config = json!({"model_type": "deci", "hidden_size": hidden, "num_hidden_layers": layers,
            "num_attention_heads": 32, "head_dim": 128, "intermediate_size": 512, "vocab_size": 32000,
            "hidden_act": "silu", "block_configs": blocks});
        let message = read_object(&config, "x", "config.json").unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}
