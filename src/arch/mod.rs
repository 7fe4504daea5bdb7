//! Transformer architectures: parameters, memory, lowering to operators, presets, Hugging Face configs.
