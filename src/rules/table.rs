//! The rules themselves. Sources: the paper's closing list as its first author retells it, the raw sweeps behind
//! the paper, NVIDIA's guide, ModernBERT; `derived` marks what follows from the shapes of the GEMMs alone.

use crate::rules::Adjust;
use crate::rules::Kind;
use crate::rules::Rule;
use crate::rules::alignment;
use crate::rules::attention;
use crate::rules::fill;
use crate::rules::parallel;

/// Every rule, in the paper's order; those that follow-ups added come last.
pub static RULES: &[Rule] = &[
    Rule {
        id: "vocabulary",
        title: "vocabulary",
        demand: "The vocabulary is a multiple of the alignment on every tensor-parallel rank; when serving, of 8.",
        reason: "Forward, the vocabulary is the output of the logit GEMM, where a multiple of 8 is enough on A100. Backward \
                 it is the reduction of the input gradient, and there 64 gain another 13 %; an odd one loses a factor of three.",
        source: "arXiv 2401.14489, closing list (stas00/ml-engineering, training/performance); raw sweeps behind the paper, \
                 A100; padding per rank as in Megatron-LM",
        kind: Kind::Speed,
        fix: &[Adjust::Vocab],
        judge: alignment::vocabulary,
    },
    Rule {
        id: "micro-batch",
        title: "micro-batch",
        demand: "The micro-batch is as large as memory allows, until every GEMM fills four waves.",
        reason: "More tokens mean more blocks a GEMM, so a smaller share of the last wave is idle.",
        source: "arXiv 2401.14489, closing list (stas00/ml-engineering, training/performance); four waves: NVIDIA Matrix \
                 Multiplication Background User's Guide",
        kind: Kind::Memory,
        fix: &[Adjust::LargerBatch],
        judge: fill::micro_batch,
    },
    Rule {
        id: "tokens",
        title: "tokens",
        demand: "Batch times sequence is a multiple of the alignment.",
        reason: "Tokens are the rows of every GEMM forward and the reduction of every weight gradient.",
        source: "arXiv 2401.14489, closing list (stas00/ml-engineering, training/performance)",
        kind: Kind::Speed,
        fix: &[Adjust::NearBatch, Adjust::Seq],
        judge: fill::tokens,
    },
    Rule {
        id: "head-size",
        title: "head size",
        demand: "The head size is a multiple of the alignment, at most 64; with flash attention it fills a kernel's tile, in decode 16-byte loads.",
        reason: "It is the reduction of the score GEMM and the output of the value GEMM. Fused kernels compute 64, 128, \
                 192 or 256 wide, and what lies between is padded; FlashAttention alone has kernels for 96 (version 2 also for 160 and 224).",
        source: "arXiv 2401.14489, closing list and figure 7 (stas00/ml-engineering, training/performance); kernel sizes: \
                 Dao-AILab/flash-attention, csrc and hopper",
        kind: Kind::Speed,
        fix: &[Adjust::HeadsOrHidden],
        judge: attention::head_size,
    },
    Rule {
        id: "hidden-shard",
        title: "hidden shard",
        demand: "Hidden width over tensor-parallel ranks is a multiple of the alignment.",
        reason: "It is the reduction of the attention projection, and the hidden width a side of every GEMM.",
        source: "arXiv 2401.14489, closing list (stas00/ml-engineering, training/performance)",
        kind: Kind::Speed,
        fix: &[Adjust::Hidden],
        judge: alignment::hidden_shard,
    },
    Rule {
        id: "attention-shard",
        title: "attention shard",
        demand: "The tensor-parallel ranks divide the heads, and the key/value heads too.",
        reason: "A rank runs whole heads; a key/value head that has to be on several ranks is computed and cached several times.",
        source: "arXiv 2401.14489, closing list (stas00/ml-engineering, training/performance); key/value heads: derived",
        kind: Kind::Speed,
        fix: &[Adjust::Heads, Adjust::KvHeads, Adjust::Hidden],
        judge: attention::attention_shard,
    },
    Rule {
        id: "tensor-parallel",
        title: "tensor-parallel ranks",
        demand: "As few tensor-parallel ranks as fit the memory.",
        reason: "Every rank more shrinks the GEMMs and takes part in collectives; it may still pay in latency.",
        source: "arXiv 2401.14489, closing list (stas00/ml-engineering, training/performance); raw sweeps behind the paper: \
                 the projection loses 18 % at 8 ranks",
        kind: Kind::Memory,
        fix: &[Adjust::FewerRanks],
        judge: parallel::tensor_parallel,
    },
    Rule {
        id: "few-heads",
        title: "few heads",
        demand: "As few and as wide heads as accuracy permits: 96 or more with flash attention, 128 unfused.",
        reason: "Wide heads do more arithmetic for each byte of the score and value GEMMs and make the score matrix smaller.",
        source: "arXiv 2401.14489, figure 8 (stas00/ml-engineering, training/performance); widths: raw sweeps behind the paper, A100",
        kind: Kind::Speed,
        fix: &[Adjust::HeadsOrHidden],
        judge: attention::few_heads,
    },
    Rule {
        id: "flash",
        title: "flash attention",
        demand: "With flash attention the head size needs no power of two, only 64 or more and a multiple of 8.",
        reason: "The fused kernel tiles inside; below 64 it cannot fill the matrix units, and other sizes lose 5 to 15 %.",
        source: "arXiv 2401.14489, figure 12 (stas00/ml-engineering, training/performance); raw FlashAttention sweep behind the paper, A100",
        kind: Kind::Speed,
        fix: &[Adjust::HeadsOrHidden],
        judge: attention::flash,
    },
    Rule {
        id: "swiglu-width",
        title: "SwiGLU width",
        demand: "The inner width of a gated MLP is a multiple of the alignment on every tensor-parallel rank; 128 or 256 are better still.",
        reason: "8/3 of a power of two is no whole number and rounds to a badly aligned one; 10922 reaches 273 TFLOP/s where \
                 10944 reaches 398 on H100.",
        source: "stas00/ml-engineering, training/performance, section on SwiGLU (follows BLOOM-176B and arXiv 2401.14489)",
        kind: Kind::Speed,
        fix: &[Adjust::DFf],
        judge: alignment::swiglu_width,
    },
    Rule {
        id: "qkv-shard",
        title: "QKV shard",
        demand: "The width of the fused QKV GEMM over tensor-parallel ranks is a multiple of the alignment.",
        reason: "It is the output of the GEMM forward and a reduction of its backward pass.",
        source: "derived from the shapes of the GEMMs",
        kind: Kind::Speed,
        fix: &[Adjust::Heads, Adjust::KvHeads, Adjust::Hidden],
        judge: alignment::qkv_shard,
    },
    Rule {
        id: "mlp-shard",
        title: "MLP shard",
        demand: "The inner width of the MLP over tensor-parallel ranks is a multiple of the alignment.",
        reason: "It is the output of the up projection and the reduction of the down projection.",
        source: "derived from the shapes of the GEMMs",
        kind: Kind::Speed,
        fix: &[Adjust::DFf],
        judge: alignment::mlp_shard,
    },
    Rule {
        id: "tiles",
        title: "tiles",
        demand: "The GEMMs fill tiles of 128 x 256, either way round; at most 2 % are wasted.",
        reason: "A tile at the edge takes the time of a whole one. It is advice: the library chooses the tile.",
        source: "ModernBERT, arXiv 2412.13663, section 2.1.3; stas00/ml-engineering, mamf-finder; NVIDIA Matrix Multiplication \
                 Background User's Guide",
        kind: Kind::Speed,
        fix: &[
            Adjust::DFf,
            Adjust::Vocab,
            Adjust::Hidden,
            Adjust::NearBatch,
            Adjust::LargerBatch,
            Adjust::Seq,
        ],
        judge: fill::tiles,
    },
    Rule {
        id: "waves",
        title: "waves",
        demand: "The blocks of the GEMMs fill whole waves of multiprocessors, or so many waves that the last one does not count.",
        reason: "109 blocks on 108 multiprocessors take twice the time of 108. It is advice: the library chooses the tile and may \
                 split the reduction.",
        source: "arXiv 2401.14489 (stas00/ml-engineering, training/performance); ModernBERT, arXiv 2412.13663; the limit of 75 % is ours",
        kind: Kind::Speed,
        fix: &[
            Adjust::DFf,
            Adjust::Hidden,
            Adjust::NearBatch,
            Adjust::LargerBatch,
            Adjust::Seq,
        ],
        judge: fill::waves,
    },
    Rule {
        id: "pipeline",
        title: "pipeline",
        demand: "The pipeline stages divide the layers.",
        reason: "The stage with one layer more sets the pace of all.",
        source: "usual requirement of pipeline code (Megatron-LM); not seen in the text of arXiv 2401.14489",
        kind: Kind::Speed,
        fix: &[Adjust::Layers],
        judge: parallel::pipeline,
    },
    Rule {
        id: "node-size",
        title: "odd node sizes",
        demand: "The tensor-parallel ranks divide heads, hidden width, MLP width and vocabulary, also where they are 6 to a node.",
        reason: "What cannot be divided is padded or does not run; powers of two are not divisible by 6.",
        source: "derived; the case study of arXiv 2401.14489 on nodes of six GPUs was not seen",
        kind: Kind::Split,
        fix: &[Adjust::EveryDivided],
        judge: parallel::node_size,
    },
    Rule {
        id: "depth",
        title: "depth",
        demand: "For latency rather wide than deep: 50 or more of hidden width a layer.",
        reason: "Layers run one after another, each with small GEMMs and its own launches.",
        source: "arXiv 2401.14489 on Pythia-410M and Pythia-1B, whose hidden widths are 43 and 128 a layer; the limit of 50 is ours",
        kind: Kind::Speed,
        fix: &[Adjust::Shallower],
        judge: fill::depth,
    },
];
