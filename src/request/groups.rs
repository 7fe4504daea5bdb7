//! Groups and labels of keys, for the help of the command line and the forms of the page.

/// A heading, options of `-h` in their order, options of `--help` alone.
pub type Group = (&'static str, &'static str, &'static str);

/// The groups; the last is of all commands.
pub const GROUPS: [Group; 7] = [
    (
        "Model",
        "m n k params like from active_params layers hidden heads kv_heads head_dim d_ff vocab",
        "batch_count layout value_dim window mlp count tolerance experts top_k shared_experts dense_layers window_layers linear_share linear tied_embeddings \
         kv_lora_rank dims",
    ),
    (
        "Search",
        "objective budget serve target",
        "target_loss choice scores serve_gpu serve_dtype free relax also_gpus also_dtypes exhaustive seed shard out \
         merge",
    ),
    (
        "Workload",
        "mode batch seq seq_q seq_kv context causal prompt output concurrency ttft_ms tpot_ms global_batch tokens dtype",
        "cached_tokens speculate draft acceptance recipe confidence pass attention router_load microbatches autocast",
    ),
    (
        "Parallelism",
        "gpus tp pp dp",
        "cp ep expert_tp vp sequence_parallel no_sharding",
    ),
    (
        "Memory",
        "zero recompute lora",
        "recompute_layers offload optimizer optimizer_states optimizer_in_backward gradient_dtype loss lora_targets \
         base_dtype kv_cache_dtype memory_share",
    ),
    (
        "Hardware",
        "gpu framework data usd_per_gpu_hour",
        "model network_gbit_per_s link_gbyte_per_s host_gbyte_per_s enforce_eager any_stack",
    ),
    (
        "Output",
        "top plot csv format wide strict help",
        "loss_plot export force color quiet fail_above no_advice version",
    ),
];

/// Labels of keys whose words do not say it.
const LABELS: &str = "\
m Rows (m)
n Columns (n)
k Inner size (k)
params Parameters
like Like the model
from Prune the model
target Targets of pruning
choice What is pruned
active_params Active parameters
hidden Hidden size
kv_heads Key-value heads
head_dim Head size
d_ff MLP width
vocab Vocabulary
value_dim Head size of values
window Sliding window
mlp Kind of MLP
count Parameters that count
top_k Experts per token
dense_layers Dense layers
window_layers Windowed layers
linear_share Shares of linear attention
linear Kind of linear attention
kv_lora_rank Latent size
serve Tokens served
serve_gpu Serving GPU
serve_dtype Format of serving
free Also varied
relax Relaxed bounds
also_gpus Also on GPUs
also_dtypes Also in formats
exhaustive Try every shape
scores Scores of blocks
seq Tokens per sequence
seq_q Query tokens
seq_kv Key tokens
context Cached tokens
prompt Tokens of a prompt
output Generated tokens
concurrency Concurrent requests
ttft_ms First token within (ms)
tpot_ms Each token within (ms)
global_batch Tokens per step
tokens Training tokens
dtype Number format
recipe Quantization
confidence Confidence of the limits
microbatches Micro-batches
gpus Number of GPUs
tp Tensor parallel
pp Pipeline parallel
dp Data parallel
cp Context parallel
ep Expert parallel
expert_tp Tensor parallel of experts
vp Virtual stages
no_sharding Ranks as they are
zero ZeRO stage
recompute Recomputation
recompute_layers Recomputed layers
gradient_dtype Format of gradients
lora LoRA rank
lora_targets LoRA targets
base_dtype Format of frozen weights
cached_tokens Cached tokens of a prompt
speculate Draft tokens a step
draft Drafts by
acceptance Share of drafts kept
kv_cache_dtype Format of the KV cache
memory_share Share of the memory
gpu GPU
usd_per_gpu_hour USD per GPU-hour
model Predictor
network_gbit_per_s Network (Gbit/s a GPU)
link_gbyte_per_s Link of GPUs (GB/s)
host_gbyte_per_s Host link (GB/s)
any_stack Any kernel library
top Number of answers
export With config.json";

/// The heading of a key and its place in all groups, if it is in one.
pub fn group(key: &str) -> Option<(&'static str, usize)> {
    let all = GROUPS.iter().flat_map(|(heading, common, rare)| {
        let keys = common.split(' ').chain(rare.split(' '));
        keys.map(move |key| (key, *heading))
    });
    let (place, (_, heading)) = all.enumerate().find(|(_, (known, _))| *known == key)?;
    Some((heading, place))
}

/// The label of a key above a field: its own, or its words.
pub fn label(key: &str) -> String {
    let named = |line: &'static str| line.split_once(' ').filter(|(known, _)| *known == key);
    if let Some((_, label)) = LABELS.lines().find_map(named) {
        return label.to_owned();
    }
    let words = key.replace('_', " ");
    let (first, rest) = words.split_at(words.len().min(1));
    first.to_uppercase() + rest
}
