//! What is written reads back as what it was, and what cannot be expressed is refused.

use super::super::super::{KeyValues, Preset, Stated, Window, Workload};
use super::super::parse_config;
use super::*;
use proptest::prelude::*;

/// What an architecture reads back as after it was written.
fn written(arch: &Architecture) -> Result<Architecture> {
    let text = format!("{:#}", config_json(arch, 4096)?);
    let read = parse_config(&text, &arch.name, "written.json")?;
    assert!(read.stated.notes(&Workload::train(1, 1)).is_empty());
    Ok(Architecture {
        stated: Stated::default(),
        ..read
    })
}

/// A pruned checkpoint runs with the rotation, epsilons and tokens that its weights were trained with.
#[test]
fn fields_that_no_shape_holds_are_those_of_the_file() {
    let own = json!({
        "bos_token_id": 128_000, "eos_token_id": [128_001, 128_009], "max_position_embeddings": 131_072,
        "rms_norm_eps": 1e-6, "rope_theta": 500_000.0, "torch_dtype": "float16",
        "rope_scaling": { "factor": 8.0, "rope_type": "llama3" },
    });
    let mut file = json!({
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128_256, "tie_word_embeddings": false,
    });
    extend(&mut file, own.clone());
    let mut arch = parse_config(&file.to_string(), "mine", "config.json").unwrap();
    arch.layers = 24;
    let config = config_json(&arch, 4097).unwrap();
    assert_eq!(config["num_hidden_layers"], 24);
    for (key, value) in own.as_object().unwrap() {
        assert_eq!(config[key], *value, "{key}");
    }
    arch.stated = Stated::default();
    let usual = config_json(&arch, 4097).unwrap();
    assert_eq!(usual["max_position_embeddings"], 4097);
    assert!(usual["eos_token_id"].is_null() && usual.get("rope_scaling").is_none());
}

/// The preset with something changed.
fn changed(name: &str, change: impl FnOnce(&mut Architecture)) -> Architecture {
    let mut arch = Preset::find(name).unwrap().architecture.clone();
    change(&mut arch);
    arch
}

#[test]
fn every_preset_that_a_model_type_expresses_survives_writing_and_reading() {
    /// One norm for two branches, norms before and after, heads that do not fill the width,
    /// attention sinks, layer norm without bias or with grouped heads, ALiBi, experts beside shared ones with a gate or
    /// dense layers in between, norms of queries and keys in other places than usual, layers that share an index or are of
    /// several shapes.
    const BEYOND: [&str; 29] = [
        "bloom-",
        "command-r7b",
        "dbrx",
        "exaone-4-",
        "falcon-",
        "gemma-2-",
        "gemma-3-",
        "gemma-4-",
        "glm-5.2",
        "gpt-j-6b",
        "gpt-oss-",
        "gpt3-13b",
        "grok-1",
        "kimi-linear-",
        "llama-4-",
        "mimo-v2-",
        "minimax-m2",
        "mpt-",
        "nemotron-3-",
        "nemotron-4-",
        "nemotron-h-",
        "nemotron-super-",
        "olmoe-",
        "phi-2",
        "phi-3.5-moe",
        "qwen1.5-moe",
        "qwen3-next-",
        "qwen3.5-",
        "starcoder2-",
    ];
    let mut expressed = 0;
    for preset in Preset::typical() {
        let arch = &preset.architecture;
        if BEYOND.iter().any(|name| arch.name.starts_with(name)) {
            let error = written(arch).unwrap_err();
            assert!(error.is_bad_input(), "{error}");
        } else {
            assert_eq!(written(arch).unwrap(), *arch);
            expressed += 1;
        }
    }
    assert_eq!(expressed, 80);
    let survives = |arch: &Architecture| written(arch).is_ok_and(|again| again == *arch);
    let all = Preset::all().iter().filter(|preset| survives(&preset.architecture));
    assert_eq!(all.count(), 171);
}

#[test]
fn the_model_type_is_the_one_that_computes_the_architecture() {
    let windowed = |layers| {
        changed("qwen2.5-7b", |arch| {
            arch.window = Some(Window { size: 512, layers });
        })
    };
    for (arch, parts) in [
        (
            changed("llama-2-7b", |_| {}),
            [r#""model_type": "llama""#, r#""head_dim": 128"#],
        ),
        (
            changed("llama-2-7b", |arch| arch.biases.mlp = true),
            [r#""model_type": "llama""#, r#""mlp_bias": true"#],
        ),
        // `transformers` refuses a Llama whose heads do not divide the hidden size.
        (
            changed("llama-2-7b", |arch| {
                (arch.heads, arch.kv_heads) = (48, 6);
            }),
            [r#""model_type": "mistral""#, r#""sliding_window": null"#],
        ),
        (windowed(3), [r#""model_type": "qwen2""#, r#""max_window_layers": 25"#]),
        (
            changed("mistral-7b-v0.1", |arch| {
                arch.window = Some(Window { size: 1024, layers: 24 });
            }),
            [r#""model_type": "ministral""#, r#""sliding_window": 1024"#],
        ),
        (
            changed("deepseek-v3", |arch| {
                arch.moe = None;
            }),
            [r#""model_type": "deepseek_v3""#, r#""first_k_dense_replace": 61"#],
        ),
        (
            changed("deepseek-v2-lite", |_| {}),
            [r#""model_type": "deepseek_v2""#, r#""q_lora_rank": null"#],
        ),
        (
            changed("pythia-1b", |arch| arch.parallel_layers = false),
            [r#""model_type": "gpt_neox""#, r#""use_parallel_residual": false"#],
        ),
        (
            changed("gpt3-2.7b", |arch| arch.tied_embeddings = false),
            [r#""model_type": "gpt2""#, r#""n_positions": 2048"#],
        ),
    ] {
        let text = format!("{:#}", config_json(&arch, 4096).unwrap());
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(written(&arch).unwrap(), arch);
    }
}

#[test]
fn what_no_model_type_expresses_is_refused_by_field() {
    for (arch, part) in [
        (
            changed("llama-2-7b", |arch| arch.parallel_layers = true),
            "`parallel_layers` is true; allowed: false for a llama, the nearest type",
        ),
        (
            changed("llama-2-7b", |arch| {
                arch.biases.attention_output = true;
            }),
            "`biases.attention_output` is true; allowed: false for a llama",
        ),
        (
            changed("llama-2-7b", |arch| arch.head_dim = 127),
            "`head_dim` is 127; allowed: even",
        ),
        (
            changed("llama-2-7b", |arch| {
                (arch.heads, arch.kv_heads, arch.biases.mlp) = (48, 48, true);
            }),
            "`heads` is 48; allowed: a divisor of hidden = 4096",
        ),
        (
            changed("mixtral-8x7b", |arch| {
                arch.window = Some(Window { size: 512, layers: 16 });
            }),
            "`window.layers` is 16; allowed: 32 for a mixtral",
        ),
        (
            changed("gpt2", |arch| arch.kv_heads = 4),
            "`kv_heads` is 4; allowed: 12 for a gpt2",
        ),
        (
            changed("gpt2", |arch| arch.positions = Positions::Alibi),
            "`positions` is alibi; allowed: rotary for a gpt_neox",
        ),
        (
            changed("pythia-1b", |arch| arch.biases.mlp = false),
            "`biases.mlp` is false; allowed: true",
        ),
        (
            changed("gemma-2-9b", |_| {}),
            "`norm.placement` is sandwich; allowed: pre for a ministral",
        ),
        (
            changed("deepseek-v3", |arch| arch.norm.qk = QkNorm::Head),
            "`norm.qk` is head; allowed: none for a deepseek_v3",
        ),
        (
            changed("llama-2-7b", |arch| arch.head_gate = true),
            "`head_gate` is true",
        ),
        (
            changed("llama-2-7b", |arch| arch.key_values = KeyValues::One),
            "`key_values` is one; allowed: absent for a llama",
        ),
        (
            changed("llama-2-7b", |arch| arch.mlp_layers = Some(8)),
            "`mlp_layers` is 8; allowed: absent",
        ),
        (
            changed("llama-2-7b", |arch| arch.value_head_dim = Some(64)),
            "`value_head_dim` is 64; allowed: absent",
        ),
        (
            changed("mixtral-8x7b", |arch| arch.moe.as_mut().unwrap().latent = Some(1024)),
            "`moe.latent` is 1024; allowed: absent",
        ),
        (
            changed("mixtral-8x7b", |arch| arch.moe.as_mut().unwrap().norms = 1),
            "`moe.norms` is 1; allowed: absent",
        ),
    ] {
        let message = config_json(&arch, 4096).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    let arch = changed("llama-2-7b", |_| {});
    assert!(config_json(&arch, 0).is_err());
}

proptest! {
    /// Every shape of these two styles can be written, whatever its sizes.
    #[test]
    fn shapes_like_llama_and_like_gpt_neox_survive_writing_and_reading(
        layers in 1u64..200,
        groups in 1u64..17,
        per_group in 1u64..9,
        half_head in 1u64..257,
        width in 1u64..4097,
        d_ff in 1u64..60_000,
        vocab in 1u64..300_000,
        tied: bool,
        bias: bool,
        flag: bool,
    ) {
        let llama = changed("llama-2-7b", |arch| {
            arch.layers = layers;
            arch.kv_heads = groups;
            arch.heads = groups * per_group;
            arch.head_dim = 2 * half_head;
            // With biases it is a `llama`, whose heads must divide the hidden size.
            arch.hidden = if bias { width.min(1024) * arch.heads } else { 8 * width };
            arch.mlp.d_ff = d_ff;
            arch.vocab = vocab;
            arch.tied_embeddings = tied;
            (arch.biases.qkv, arch.biases.attention_output) = (bias, bias);
            arch.norm.qk = if flag { QkNorm::Head } else { QkNorm::None };
        });
        prop_assert_eq!(written(&llama).unwrap(), llama);
        let neox = changed("pythia-1b", |arch| {
            arch.layers = layers;
            arch.heads = groups * per_group;
            arch.kv_heads = arch.heads;
            arch.head_dim = 2 * half_head;
            arch.hidden = arch.heads * arch.head_dim;
            arch.mlp.d_ff = d_ff;
            arch.vocab = vocab;
            arch.tied_embeddings = tied;
            (arch.biases.qkv, arch.biases.attention_output) = (bias, bias);
            arch.parallel_layers = flag;
        });
        prop_assert_eq!(written(&neox).unwrap(), neox);
    }
}

#[test]
fn layers_of_their_own_survive_writing_and_reading_as_nemotron_nas() {
    let llama = changed("llama-3-70b", |_| {});
    let mut layers = llama.each_layer().unwrap();
    layers[1] = layers[1].with_kv_heads(0);
    layers[2] = layers[2].with_kv_heads(2).with_d_ff(25088);
    layers[3] = layers[3].with_d_ff(0);
    layers[4] = layers[4].with_kv_heads(0).with_d_ff(0);
    for layer in &mut layers[10..40] {
        *layer = layer.with_d_ff(3584);
    }
    let config = layers_json(&llama, &layers, 4096).unwrap();
    let read = parse_config(&config.to_string(), &llama.name, "written.json").unwrap();
    assert!(read.stated.notes(&Workload::train(1, 1)).is_empty());
    let read = Architecture {
        stated: Stated::default(),
        ..read
    };
    let kept = llama.with_layers(&layers);
    assert_eq!((kept.layers, kept.kinds.len()), (79, 4));
    assert_eq!(read, kept);

    layers[5] = layers[5].with_d_ff(1000);
    for (arch, layers, wanted) in [
        (&llama, &layers[..], "`kinds.d_ff` is 1000; allowed: a multiple of 256"),
        (
            &changed("qwen3-8b", |_| {}),
            &layers[..1],
            "unless it is a llama otherwise",
        ),
    ] {
        let refused = layers_json(arch, layers, 4096).unwrap_err().to_string();
        assert!(refused.contains(wanted), "{refused}");
    }
}
