//! What may be asked: one struct a request, from which the command line, the JSON, the OpenAPI document and the forms of
//! the page follow.
//!
//! Doc comments are the help of the options and the descriptions of the keys. Keys are those of [`crate::ops`] and
//! [`crate::arch`], so a request can be made of an answer. A size is a [`Size`]: a number, or a range in a sweep.

mod calibrate;

mod goal;

mod graph;

mod groups;

pub mod json;

mod model;

pub mod number;

mod operator;

mod plan;

mod prune;

mod search;

mod size;

mod step;

mod target;

mod workload;

mod written;

pub use calibrate::{CalibrateRequest, MeasuredRun};
pub use goal::{Budget, ServedTokens};
pub use graph::{GraphRequest, OperatorList};
pub use groups::{GROUPS, Group, group, label};
pub use model::{ArchitectureRequest, ModelRequest, UNNAMED};
pub use operator::{AttentionRequest, BatchRequest, GemmRequest, OperatorRequest};
pub use plan::{GpuCounts, GpuPrices, PlanRequest, Planned, Tokens};
pub use prune::PruneRequest;
pub use search::{LEAST_POSITIONS, Parameters, SearchRequest};
pub use size::{Size, Sizes};
pub use step::{RunRequest, StepRequest};
pub use target::{DEFAULT_GPU, FrameworkRequest, TargetRequest};
pub use workload::WorkloadRequest;
pub use written::{
    Confidence, Gigabits, Gigabytes, LinearShare, MemoryShare, Milliseconds, TargetLoss, Tolerance, Top, UsdPerHour,
    ZeroStage,
};
