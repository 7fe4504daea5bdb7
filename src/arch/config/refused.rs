//! Why models of some types cannot be timed, type by type.

/// Layers whose operators no kernel here describes.
const STATE_SPACE: &str = "has state-space layers of a kind that this program does not read";
const LINEAR: &str = "has linear-attention layers of a kind that this program does not read";
const SPARSE: &str = "chooses by an index which keys each query attends to, which this program does not time";
const BLOCKS: &str = "attends to blocks of keys in a sparse pattern, which this program does not time";
const ENCODER: &str = "is an encoder; this program times decoders that generate text";
const ENCODER_DECODER: &str = "is an encoder with a decoder; this program times models that are only a decoder";
const CROSS: &str = "has layers that attend to images, which this program does not time";
const SHARED_STATE: &str = "has parts beside attention and MLP in every layer, which this program does not time";
const UNEVEN: &str = "has layers of different sizes, which this program does not describe";

/// What models of each type are, where that is why they cannot be timed.
const REFUSED: &[(&str, &[&str])] = &[
    (
        STATE_SPACE,
        &[
            "bamba",
            "falcon_h1",
            "falcon_mamba",
            "jamba",
            "mamba",
            "mamba2",
            "phi4flash",
            "plamo2",
            "zamba",
            "zamba2",
            "zaya",
        ],
    ),
    (
        LINEAR,
        &[
            "bailing_hybrid",
            "kimi_k3",
            "minimax",
            "minimax_m1",
            "minimax_text_01",
            "olmo_hybrid",
            "recurrent_gemma",
            "rwkv",
            "rwkv7",
            "xlstm",
        ],
    ),
    (
        SPARSE,
        &[
            "deepseek_ref",
            "deepseek_v32",
            "deepseek_v4",
            "glm_moe_dsa",
            "minicpm_sala",
            "minimax_m3",
            "minimax_m3_vl",
        ],
    ),
    (BLOCKS, &["phi3small"]),
    (
        ENCODER,
        &[
            "albert",
            "bert",
            "camembert",
            "clip",
            "deberta",
            "deberta-v2",
            "distilbert",
            "electra",
            "ernie",
            "eurobert",
            "longformer",
            "modernbert",
            "mpnet",
            "new",
            "nomic_bert",
            "roberta",
            "siglip",
            "siglip2",
            "vit",
            "xlm-roberta",
            "xlm-roberta-xl",
        ],
    ),
    (
        ENCODER_DECODER,
        &[
            "bart",
            "blenderbot",
            "bigbird_pegasus",
            "florence2",
            "led",
            "m2m_100",
            "marian",
            "mbart",
            "mt5",
            "nllb_moe",
            "pegasus",
            "prophetnet",
            "switch_transformers",
            "t5",
            "t5gemma",
            "umt5",
            "whisper",
        ],
    ),
    (CROSS, &["mllama", "mllama_text_model", "idefics"]),
    (
        SHARED_STATE,
        &[
            "bitnet",
            "gemma3n",
            "gemma3n_text",
            "lfm2",
            "lfm2_moe",
            "longcat_flash",
            "phi4_multimodal",
            "phi4mm",
        ],
    ),
    (
        UNEVEN,
        &[
            "deci",
            "gemma4",
            "gemma4_text",
            "mimo_v2_flash",
            "nemotron-nas",
            "openelm",
            "step3p7",
        ],
    ),
];

/// Why models of this type cannot be timed, if that is known.
pub(super) fn reason(model_type: &str) -> Option<&'static str> {
    let mut reasons = REFUSED.iter();
    let found = reasons.find(|(_, types)| types.contains(&model_type));
    found.map(|(reason, _)| *reason)
}

#[cfg(test)]
pub(super) fn types() -> impl Iterator<Item = &'static str> {
    REFUSED.iter().flat_map(|(_, types)| types.iter().copied())
}
