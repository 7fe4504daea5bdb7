//! Which fields that no reader asks for may change a shape, by the words of their names.

use super::table::table;
use serde_json::Value;

/// Whether this is what a field says that might as well be absent.
pub(super) fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(says_nothing),
        Value::Object(fields) => fields.values().all(says_nothing),
        Value::Bool(true) => false,
    }
}

/// Whether an unknown field with this name and value may change a shape.
pub(super) fn may_shape(name: &str, value: &Value) -> bool {
    if says_nothing(value) {
        return false;
    }
    let words = words(name);
    let table = table();
    let any = |known: &[String]| words.iter().any(|word| known.contains(word));
    if any(&table.lists.harmless_words) {
        return false;
    }
    let inside = || {
        value
            .as_object()
            .is_some_and(|fields| fields.iter().any(|(name, value)| may_shape(name, value)))
    };
    any(&table.lists.shaping_words) || inside()
}

/// The words of `num_kv_heads`, `numKvHeads` or `num-kv-heads2`, in small letters.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && after_small) {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("one at least").extend(letter.to_lowercase());
        }
        after_small = letter.is_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_parts_may_shape_and_names_of_settings_may_not() {
        for name in [
            "num_local_experts",
            "numHiddenLayers",
            "cross_attention_layers",
            "ffn_dim",
            "use_post_norm",
            "qkv_bias2",
            "sliding_window",
            "kv_lora_rank",
            "attention_type",
            "conv_L_cache",
            "ssm_cfg",
        ] {
            assert!(may_shape(name, &json!(8)), "{name}");
            assert!(!may_shape(name, &json!(0)) && !may_shape(name, &json!([])), "{name}");
        }
        for name in [
            "max_sequence_length",
            "use_flash_attention_2",
            "logits_to_keep",
            "neftune_noise_alpha",
            "n_ctx",
            "lora_alpha",
            "seq_length",
            "residual_in_fp32",
            "attention_probs_dropout_prob",
            "layerNormEps",
            "train_batch_size",
            "my_note",
        ] {
            assert!(!may_shape(name, &json!(8)), "{name}");
        }
        assert!(may_shape("extra", &json!({"depth": {"layers": 2}})));
        assert!(!may_shape("extra", &json!({"author": "x", "layers": 0})));
    }
}
