//! What the command line may say. Doc comments are the help; options of requests are in [`crate::request`].

pub mod measure;

use crate::cli::environment;
use crate::cli::output::{Files, ReplaceArgs};
use crate::cli::{help, hints, rows};
use crate::gpu::Gpu;
use crate::ops::LARGEST;
use crate::report::plot;
use crate::request::{
    ArchitectureRequest, AttentionRequest, CalibrateRequest, GemmRequest, GraphRequest, ModelRequest, PlanRequest,
    PruneRequest, SearchRequest, Size, StepRequest, TargetRequest, number,
};
use crate::shard::Shard;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use measure::MeasureArgs;
use std::any::TypeId;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A learned GPU performance predictor for transformers.
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 done,
/// 1 the request cannot be met, a file is wrong or `check --strict` found a broken rule, 2 wrong usage, 70 a bug.
///
/// SHAPEWISE_GPU may name the GPU; the command line goes before it.
#[derive(Debug, Parser)]
#[command(name = "shapewise", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How the result is shown.
    #[command(flatten)]
    pub view: View,
    /// The files that the command line names.
    #[arg(skip)]
    pub files: Files,
    /// The GPU of the environment, if it is the one.
    #[arg(skip)]
    pub gpu_of_environment: Option<String>,
}

/// How a result is shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct View {
    /// How to print the result.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Print every column, and lines as long as they are, whatever the width of the terminal (100 without one).
    #[arg(long, global = true)]
    pub wide: bool,
    /// Colour verdicts, gains and losses; auto does so on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", default_value_t = clap::ColorChoice::Auto)]
    pub color: clap::ColorChoice,
    /// Leave out progress and notes on standard error; errors are still said.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// The form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// The same in Markdown.
    Md,
    /// The rows of the main table, with units in the heading and every digit.
    Csv,
    /// One JSON document with units in its keys, `"schema": 1`.
    Json,
    /// Broken rules of `check` in SARIF 2.1.0, for code hosts.
    Sarif,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Predict the time of a GEMM, of attention, or of a whole model.
    #[command(subcommand)]
    Predict(Predict),
    /// Find the fastest architecture for a number of parameters.
    ///
    /// Varied are layers, hidden size, query and key/value heads, head size, MLP width and the padding of the vocabulary,
    /// in a mixture also the experts, their width and how many a token visits: inside the bounds of
    /// data/search-bounds.toml, within the tolerance of the parameters and in the memory of the GPU. The search does not
    /// vary the kinds of layers, of attention (no latent attention, no state-space layers) and of MLP, the number format
    /// or the GPU, and knows of a shape's quality only the loss that scaling laws give it.
    ///
    /// With --from and --target it finds instead what an existing model loses to get faster or smaller, at the least expected
    /// damage.
    Search(Box<Search>),
    /// Find the fastest layout of a model over a number of GPUs: ranks, micro-batches, sharding, recomputation.
    ///
    /// In training the layout with the shortest step; when serving the engine, the copies of it and the requests in
    /// flight with the most tokens per second within --ttft-ms and --tpot-ms.
    Plan(Box<PlanArgs>),
    /// Hold GPUs and models beside each other, each with its best layout: --gpu h100,h200 or all; MODEL,MODEL.
    Compare(Box<Targeted<PlanRequest>>),
    /// Say what is wrong with a shape, what it costs, and which near shape fixes it.
    ///
    /// `check gemm` and `check attention` judge one operator alike.
    Check(Box<Check>),
    /// Predict along one dimension: the curve, its steps, a plot.
    ///
    /// Exactly one size is a range or a list, the others are numbers. START:END:STEP has both ends included, START:END about
    /// a hundred points at multiples of a power of two, START:END:xFACTOR grows by a factor, 4096,8192,11008 is a list.
    #[command(subcommand)]
    Sweep(Box<Sweep>),
    /// Answer over HTTP, with a web page.
    Serve(ServeArgs),
    /// Answer agents: a server of the Model Context Protocol on standard input and output.
    Mcp,
    /// Time operators on your own GPU or CPU: rows to train a model on.
    Measure(MeasureArgs),
    /// Fit a model to timing tables.
    Train(TrainArgs),
    /// Compare predictions with timing tables: the error table.
    Evaluate(EvaluateArgs),
    /// Fit the constants of a framework to measured steps of your own.
    Calibrate(CalibrateArgs),
    /// Convert public timing tables to our own Parquet schema, or merge files of our own.
    Import(ImportArgs),
    /// List the known GPUs, or every figure of one with its source.
    Gpus(GpusArgs),
    /// List the models that are built in.
    Models,
    /// List the published architectures that have a name here.
    Presets,
    /// Print what a shell completes commands and options by: `source <(shapewise completions bash)`.
    Completions(CompletionsArgs),
    /// Write the pages of the manual, one a command: `man -l DIR/shapewise-search.1` shows one.
    Manual(ManualArgs),
}

impl Cli {
    /// The grammar, with its help in groups.
    pub fn arranged() -> clap::Command {
        help::arranged(Self::command())
    }

    /// Reads a command line, the program's name first.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = adjusted(Self::arranged()).mut_subcommands(|command| {
            let sweeps = command.get_name() == "sweep";
            if sweeps { command } else { without_ranges(command) }
        });
        let args = counted_gpus(args);
        let matches: ArgMatches = command.clone().try_get_matches_from(&args).map_err(|error| {
            let words = args.iter().skip(1);
            let words: Vec<_> = words.map(|arg| arg.to_string_lossy().into_owned()).collect();
            hints::improved(error, &command, &words)
        })?;
        let read = Self::from_arg_matches(&matches);
        let mut read = read.map_err(|error| error.format(&mut Self::arranged()))?;
        read.files = Files::of(&command, &matches);
        read.gpu_of_environment = environment::used(&matches);
        Ok(read)
    }
}

/// `--gpus 8xh100` as `--gpus 8 --gpu h100`.
fn counted_gpus(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = args.into_iter().collect();
    let at = all.windows(2).position(|pair| pair[0] == "--gpus");
    let counted = at.and_then(|at| Some((at + 1, counted(all[at + 1].to_str()?)?)));
    if let Some((at, [count, gpu])) = counted {
        let is_named = all.windows(2).any(|pair| pair[0] == "--gpu" && pair[1] == *gpu);
        all[at] = count.into();
        if !is_named {
            all.splice(at + 1..at + 1, ["--gpu".into(), gpu.into()]);
        }
    }
    all
}

/// How many of which GPU: `8xh100`, `h100x8`, `8 h100`, `h100:8`.
fn counted(text: &str) -> Option<[String; 2]> {
    let splits = text.match_indices(['x', 'X', '*', ' ', ':']);
    let mut pairs = splits.flat_map(|(at, sign)| {
        let [first, second] = [&text[..at], &text[at + sign.len()..]].map(str::trim);
        [[first, second], [second, first]]
    });
    let found = pairs.find(|[count, gpu]| count.parse::<u64>().is_ok() && Gpu::find(gpu).is_ok());
    found.map(|pair| pair.map(str::to_owned))
}

/// Lets parsers of values see negative numbers, so that they say what is allowed, and names in capitals.
fn adjusted(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true).ignore_case(true),
        false => arg,
    });
    command.mut_subcommands(adjusted)
}

/// Refuses ranges where sizes are numbers.
fn without_ranges(command: clap::Command) -> clap::Command {
    fn number<const LEAST: u64>(text: &str) -> Result<Size<LEAST>, String> {
        Size::fixed(text)
    }
    let command = command.mut_args(|arg: Arg| {
        let kind = arg.get_value_parser().type_id();
        if kind == TypeId::of::<Size>() {
            arg.value_parser(number::<1>)
        } else if kind == TypeId::of::<Size<0>>() {
            arg.value_parser(number::<0>)
        } else {
            arg
        }
    });
    command.mut_subcommands(without_ranges)
}

/// Where the predicted work runs and what answers.
#[derive(Clone, Debug, Args)]
pub struct TargetArgs {
    /// GPU and model.
    #[command(flatten)]
    pub request: TargetRequest,
    /// A timing table of your own: shapes found in it are answered as measured.
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
}

/// A request with its GPU and model.
#[derive(Debug, Args)]
pub struct Targeted<R: Args> {
    /// The request.
    #[command(flatten)]
    pub request: R,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// What to predict.
#[derive(Debug, Subcommand)]
pub enum Predict {
    /// One GEMM, a matrix product (m, k) x (k, n).
    Gemm(Box<Targeted<GemmRequest>>),
    /// One fused (flash) attention.
    Attention(Box<Targeted<AttentionRequest>>),
    /// One step of a whole transformer, operator by operator.
    ///
    /// Sizes of the architecture that are left out stay as they are or follow: --heads keeps the width of attention and
    /// the queries per key head, --hidden keeps the number of heads and the ratio of the MLP.
    Model(Box<StepArgs>),
    /// Every line of a file: GEMMs, attentions and models, as JSON lines or CSV.
    ///
    /// A line has the keys of one request, those of the workload beside the others, and its own gpu, model or framework
    /// if it has one; `kind` is model or that of an operator, which may have the keys of a list for `predict graph`.
    /// Answers come in the order of the lines. With --format json each is one line; a line that cannot be answered is
    /// named on standard error, leaves an object with `error` in its place,
    /// and makes the exit code 1.
    Batch(BatchArgs),
    /// Every operator of a graph that a framework exported (ONNX), or of a list of operators (JSON lines).
    ///
    /// What is known is timed kernel by kernel, what is not is named and counted. Shapes are those of the graph; --dim
    /// gives its symbolic dimensions a size. A line of a list has the keys that answers have under `op`, and `count`.
    Graph(GraphArgs),
}

/// Predicting a step.
#[derive(Debug, Args)]
pub struct StepArgs {
    /// The step.
    #[command(flatten)]
    pub subject: Targeted<StepRequest>,
    /// Draw the operators under the roofline of the GPU: FLOPs per byte against FLOP/s.
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture)]
    pub plot: Option<PathBuf>,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// Predicting every operator of a graph.
#[derive(Debug, Args)]
pub struct GraphArgs {
    /// The graph, or the list of operators.
    #[arg(value_name = "FILE.onnx|FILE.jsonl")]
    pub file: PathBuf,
    /// How it is read.
    #[command(flatten)]
    pub request: GraphRequest,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Predicting every line of a file.
#[derive(Debug, Args)]
pub struct BatchArgs {
    /// JSON lines, or CSV with the keys in its first line; - is standard input.
    #[arg(value_name = "FILE.jsonl|FILE.csv|-")]
    pub file: PathBuf,
    /// GPU and model of lines that name none.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// What to predict along one dimension.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // One value a run of the program.
pub enum Sweep {
    /// One GEMM, a matrix product (m, k) x (k, n); one of its sizes is a range or a list.
    ///
    /// Timings of --data are shown beside the prediction, which does not use them.
    Gemm(SweepArgs<GemmRequest>),
    /// One fused (flash) attention; one of its sizes is a range or a list.
    ///
    /// Timings of --data are shown beside the prediction, which does not use them.
    Attention(SweepArgs<AttentionRequest>),
    /// One step of a whole transformer; one of its sizes is a range or a list.
    ///
    /// Sizes of the architecture that are left out stay as they are or follow: --heads keeps the width of attention and
    /// the queries per key head, --hidden keeps the number of heads and the ratio of the MLP.
    Model(Box<SweepArgs<ModelRequest>>),
}

/// What is swept, and where the results go.
#[derive(Debug, Args)]
pub struct SweepArgs<R: Args> {
    /// What is predicted.
    #[command(flatten)]
    pub subject: Targeted<R>,
    /// Files to write.
    #[command(flatten)]
    pub files: FileArgs,
}

/// Files that a sweep writes beside its report.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// Draw the curve, too; the extension chooses the format.
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture)]
    pub plot: Option<PathBuf>,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// What is judged by the sizing rules: a model, or one operator.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // One value a run of the program.
pub enum Check {
    /// Shapes of whole models.
    Models(CheckArgs),
    /// One operator.
    Operator(CheckOperator),
}

impl FromArgMatches for Check {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand_name() {
            Some(_) => CheckOperator::from_arg_matches(matches).map(Self::Operator),
            None => CheckArgs::from_arg_matches(matches).map(Self::Models),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Check {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = CheckOperator::augment_subcommands(CheckArgs::augment_args(command));
        command
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand_required(false)
            .arg_required_else_help(false)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// The operator to be judged.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // One value a run of the program.
pub enum CheckOperator {
    /// One GEMM, a matrix product (m, k) x (k, n): what bounds it, and the nearest size that is faster.
    Gemm(CheckOperatorArgs<GemmRequest>),
    /// One fused (flash) attention: what bounds it, and the nearest size that is faster.
    Attention(CheckOperatorArgs<AttentionRequest>),
}

/// An operator to be judged by the sizing rules.
#[derive(Debug, Args)]
pub struct CheckOperatorArgs<R: Args> {
    /// The operator.
    #[command(flatten)]
    pub subject: Targeted<R>,
    /// What fails.
    #[command(flatten)]
    pub limits: FailArgs,
}

/// A shape to be judged by the sizing rules.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The shape.
    #[command(flatten)]
    pub subject: Targeted<ModelRequest>,
    /// Further models, each checked alike.
    #[arg(value_name = "PRESET|CONFIG.json")]
    pub others: Vec<ArchitectureRequest>,
    /// What fails.
    #[command(flatten)]
    pub limits: FailArgs,
}

/// Which broken rules make the exit code 1.
#[derive(Clone, Copy, Debug, Args)]
pub struct FailArgs {
    /// Exit with 1 when any rule is broken whose fix may be faster, advice included; the report is the same.
    #[arg(long)]
    pub strict: bool,
    /// Leave advice out of what --strict and --fail-above count.
    #[arg(long)]
    pub no_advice: bool,
    /// Exit with 1 when a rule is broken whose fix is expected to save more than this share of the time, such as 3%.
    #[arg(long, value_name = "FRACTION", value_parser = fraction, conflicts_with = "strict")]
    pub fail_above: Option<f64>,
}

impl FailArgs {
    /// Whether broken rules are counted at all.
    pub fn counts(&self) -> bool {
        self.strict || self.fail_above.is_some()
    }
}

/// Finding a shape.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// What to search.
    #[command(flatten)]
    pub subject: Targeted<SearchRequest>,
    /// Write each reported shape as a Hugging Face config.json into a folder of its own below this one; of --from, blocks of llama
    /// models (as Nemotron-NAS) and uniform shapes.
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// Draw throughput against memory of the Pareto front.
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture)]
    pub plot: Option<PathBuf>,
    /// Draw throughput against loss of the reported shapes, with their bands.
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture)]
    pub loss_plot: Option<PathBuf>,
    /// Look at every shape of shard I of N of the lattice and write what was seen to --out; N tasks share nothing.
    #[arg(long, value_name = "I/N", requires = "out", conflicts_with_all = ["merge", "also_gpus", "also_dtypes"])]
    pub shard: Option<Shard>,
    /// The file of the shard.
    #[arg(long, value_name = "FILE.json", requires = "shard")]
    pub out: Option<PathBuf>,
    /// Answer from the files of all shards, as the same search does that looks at every shape.
    #[arg(long, value_name = "FILE.json", num_args = 1.., conflicts_with_all = ["also_gpus", "also_dtypes"])]
    pub merge: Vec<PathBuf>,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// Finding what a model loses.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// What is pruned.
    #[command(flatten)]
    pub subject: Targeted<PruneRequest>,
    /// The damage of blocks: CSV with the columns layer, part, choice and score, or JSON with them as keys [default: the share
    /// of all parameters that its part has, times the square of the share of the part that goes].
    #[arg(long, value_name = "FILE")]
    pub scores: Option<PathBuf>,
    /// Write each reported shape as a Hugging Face config.json into a folder of its own below this one.
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// What is searched: shapes, or what an existing model loses.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // One value a run of the program.
pub enum Search {
    /// Shapes.
    Shapes(SearchArgs),
    /// What the model of `--from` loses.
    From(PruneArgs),
}

/// The option that a search prunes by.
const FROM: &str = "from";

impl FromArgMatches for Search {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.contains_id(FROM) {
            true => PruneArgs::from_arg_matches(matches).map(Self::From),
            false => SearchArgs::from_arg_matches(matches).map(Self::Shapes),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Search {
    /// The options of both, of which those of one alone refuse those of the other.
    fn augment_args(command: clap::Command) -> clap::Command {
        let prunes = PruneArgs::augment_args(clap::Command::new(FROM));
        let both: Vec<_> = prunes.get_arguments().map(|arg| arg.get_id().clone()).collect();
        let command = SearchArgs::augment_args(command);
        let known: Vec<_> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
        let command = command.mut_args(|arg| match both.contains(arg.get_id()) {
            true => arg,
            false => arg.conflicts_with(FROM),
        });
        let of_pruning = prunes.get_arguments().filter(|arg| !known.contains(arg.get_id()));
        let of_pruning = of_pruning.map(|arg| match arg.get_id() == FROM {
            true => arg.clone().required(false).requires("target"),
            false => arg.clone().required(false).requires(FROM),
        });
        command.args(of_pruning).mut_group("subject", |group| group.arg(FROM))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Planning a layout.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// What to plan.
    #[command(flatten)]
    pub subject: Targeted<PlanRequest>,
    /// Draw throughput against memory of the layouts, or against the number of GPUs.
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture)]
    pub plot: Option<PathBuf>,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let allowed = "allowed: an address of this machine and a port, such as 127.0.0.1:8080";
    text.parse().map_err(|_| allowed.to_owned())
}

/// Answering over HTTP.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: SocketAddr,
    /// Let web pages of these origins ask from a browser; * lets all.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "ORIGIN")]
    pub cors: Vec<String>,
}

/// Fitting a model.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Timing tables in our own schema (`shapewise measure` and `import` write them).
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub data: Vec<PathBuf>,
    /// What `measure --choices` wrote: kernels of shapes that were not timed, of a GPU and stack in --data, for nets of GEMMs.
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with = "across")]
    pub choices: Vec<PathBuf>,
    /// Where the model goes; an interrupted run started again with the same arguments resumes.
    #[arg(long, value_name = "models/NAME")]
    pub out: PathBuf,
    /// Start from this model (a name or a path) instead of from nothing.
    #[arg(long, value_name = "NAME|PATH")]
    pub base: Option<String>,
    /// Equal seeds and data give equal models.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// What to compute on.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    pub backend: Backend,
    /// Passes over the rows [default: what data/stacks.toml asks for].
    #[arg(long, value_name = "N", value_parser = count)]
    pub epochs: Option<u64>,
    /// Shapes that the teacher labels for the nets [default: 20000 to 120000].
    #[arg(long, value_name = "N", value_parser = count)]
    pub labels: Option<u64>,
    /// Keep this share of the keys from every net, to judge the model by them (`evaluate --kept-out`):
    /// hidden sizes of the paper's layers, (n, k) of other products, heads of attention.
    #[arg(long, value_name = "FRACTION", value_parser = fraction, conflicts_with = "base")]
    pub keep_out: Option<f64>,
    /// One model over the default stacks of all GPUs, for GPUs without a table.
    #[arg(long, conflicts_with_all = ["gpu", "base"])]
    pub across: bool,
    /// The GPU whose sub-models to train, and of all rows of a CSV that names none; auxiliary tables may be of other GPUs
    /// [default: the only one in the data].
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// The software, with its version, of all rows of a CSV without the column `stack`.
    #[arg(long, value_name = "NAME")]
    pub stack: Option<String>,
    /// What all rows share.
    #[command(flatten)]
    pub stated: StatedArgs,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// What training computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The CPU, all cores.
    Cpu,
    /// Any GPU with Vulkan, Metal or DX12 (feature `wgpu`).
    Wgpu,
}

/// Which rows of a table to take.
#[derive(Debug, Default, Args)]
pub struct FilterArgs {
    /// Only rows of these GPUs; one holds for all rows of a file that names none.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    pub gpu: Vec<String>,
    /// Only rows of these software stacks, such as "trtllm 1.3.0rc20"; one holds for all rows of a file that names none.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    pub stack: Vec<String>,
}

/// What all rows of a table in CSV share.
#[derive(Debug, Args)]
pub struct StatedArgs {
    /// Where all rows of a CSV without the column `source` are from.
    #[arg(id = "of_source", long = "source", value_name = "TEXT")]
    pub source: Option<String>,
    /// The licence (SPDX) of all rows of a CSV without the column `licence`.
    #[arg(long, value_name = "SPDX")]
    pub licence: Option<String>,
}

/// Comparing with a table.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// Timing tables.
    #[arg(long, required_unless_present = "runs", num_args = 1.., value_name = "FILE")]
    pub data: Vec<PathBuf>,
    /// Whose tables they are; native is our own schema, auto decides by the columns of each table.
    #[arg(long, default_value = AUTO, value_parser = PossibleValuesParser::new([AUTO, NATIVE].into_iter().chain(rows::publishers())))]
    pub from: String,
    /// Measured whole models (docs/runs.md), judged instead of timing tables; `--gpu` and `--stack` choose them by GPU and software.
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with_all = ["data", "from", "kept_out"])]
    pub runs: Vec<PathBuf>,
    /// The framework that whole models are predicted with: a built-in one, the path of a calibrated one, or auto for
    /// the one that each run's software names.
    #[arg(long, default_value = AUTO, value_name = "NAME|PATH|auto", requires = "runs")]
    pub framework: String,
    /// A built-in model by name, or the path of a trained one; by default the model of each GPU.
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// Predict every row as if its software were not known, with intervals that hold for any stack of its GPU.
    #[arg(long, conflicts_with = "runs")]
    pub any_stack: bool,
    /// Only rows whose keys were kept out when the model was trained (`train --keep-out`).
    #[arg(long, requires = "model")]
    pub kept_out: bool,
    /// Write every timing or run beside its prediction and interval to this table, too.
    #[arg(long, value_name = "FILE.csv")]
    pub csv: Option<PathBuf>,
    /// Which rows.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// Fitting the constants of a framework.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// What is fitted to what.
    #[command(flatten)]
    pub request: CalibrateRequest,
    /// The file to write.
    #[arg(long, value_name = "FILE.toml")]
    pub out: PathBuf,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// Takes the framework from the software that a run names, and the publisher of a table from its columns.
pub const AUTO: &str = "auto";

/// Converting public tables, or merging our own.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Whose tables they are; native merges files of our own, such as shards of a plan, and torch-profiler and nsys read traces
    /// of a job of one's own.
    #[arg(value_parser = PossibleValuesParser::new([NATIVE].into_iter().chain(rows::recorders()).chain(rows::publishers())))]
    pub source: String,
    /// The tables, as they are published: the GPU of a file that does not name it is that of its folder or the one of
    /// `--gpu`.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// What all rows share.
    #[command(flatten)]
    pub stated: StatedArgs,
    /// What a step of a trace is, by columns of docs/runs.md (`model=llama-3-8b,batch=4,seq=2048`): a run of each trace's median
    /// step goes to FILE.steps.parquet.
    #[arg(long, value_name = "COLUMN=VALUE", value_delimiter = ',')]
    pub run: Vec<String>,
    /// The Parquet file to write.
    #[arg(long, value_name = "FILE.parquet")]
    pub out: PathBuf,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
    /// Which rows.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Listing GPUs.
#[derive(Debug, Args)]
pub struct GpusArgs {
    /// Show every figure of this GPU with its source.
    pub name: Option<String>,
}

/// Completing commands in a shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Writing the manual.
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// The folder of the pages.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// Our own schema of timing tables.
pub const NATIVE: &str = "native";

/// Reads a count of things.
fn count(text: &str) -> Result<u64, String> {
    let count = number::size(text);
    let count = count.filter(|count| (1..=LARGEST).contains(count));
    count.ok_or_else(|| format!("allowed: whole numbers from 1 to {LARGEST}"))
}

/// Reads the path of a plot; its extension must name a format.
fn picture(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    match plot::Format::of(path) {
        Ok(_) => Ok(path.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a share of something: some, not all.
fn fraction(text: &str) -> Result<f64, String> {
    let value = number::fraction(text);
    let value = value.filter(|value| *value > 0.0 && *value < 1.0);
    let percent = match text.parse::<f64>() {
        Ok(value) if (1.0..100.0).contains(&value) => format!("; {text} of a hundred is {text}%"),
        _ => String::new(),
    };
    value.ok_or_else(|| format!("allowed: a number between 0 and 1, such as 0.1 or 10%{percent}"))
}
