//! Execution plans: engines that cuDNN's heuristic proposes for a graph, compiled and run.

use super::descriptor::{Descriptor, Handle, succeed};
use super::{Binding, build};
use crate::error::{Error, Result};
use crate::measure::cuda::cudnn::graph::Graph;
use crate::ops::{Attention, Op};
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as HeurMode,
};
use std::ffi::c_void;

/// Properties of a compiled plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Name of its first kernel.
    pub kernel: String,
    /// Workspace in bytes.
    pub workspace_bytes: u64,
}

/// Engine configurations in the order of the heuristic, for the device of the graph's handle or for a described one.
pub fn configurations(graph: &Descriptor, described: Option<&Descriptor>) -> Result<Vec<Descriptor>> {
    let kind = Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
    let heuristic = Descriptor::new(kind, "a heuristic")?;
    heuristic
        .descriptor(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[HeurMode::CUDNN_HEUR_MODE_A])?;
    if let Some(properties) = described {
        heuristic.descriptor(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties)?;
    }
    heuristic.finalize()?.children(
        Name::CUDNN_ATTR_ENGINEHEUR_RESULTS,
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
        "an engine's configuration",
    )
}

/// Compiles a configuration for the device that a plan is set to.
pub fn compiled(
    configuration: &Descriptor,
    set_device: impl FnOnce(&Descriptor) -> Result<&Descriptor>,
) -> Result<Descriptor> {
    let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan")?;
    set_device(&plan)?.descriptor(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)?;
    plan.finalize()
}

pub fn planned(plan: &Descriptor) -> Result<Planned> {
    let bytes = plan.integer(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
    // A plan of an engine that is not compiled at run time has no JSON.
    let json = plan
        .string(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)
        .unwrap_or_default();
    let named = json.split("\"kernelName\":\"").nth(1);
    let kernel = named.and_then(|rest| rest.split('"').next());
    Ok(Planned {
        kernel: kernel.unwrap_or("cudnn").to_owned(),
        workspace_bytes: u64::try_from(bytes).unwrap_or(0),
    })
}

/// Addresses of the bound tensors.
pub struct Bound {
    numbers: Vec<i64>,
    addresses: Vec<*mut c_void>,
}

/// A compiled plan on a device.
pub struct Plan {
    // Refers to the configuration, and that to the graph: destroyed first.
    plan: Descriptor,
    _configuration: Descriptor,
    _finalized: Descriptor,
    _graph: Graph,
    bindings: Vec<(i64, Binding)>,
    /// Properties.
    pub planned: Planned,
    // By-value tensors are bound to memory of the host, which must stay where it is.
    values: Box<[f32]>,
}

impl Plan {
    /// Compiles the first configuration of the heuristic's list that finalizes.
    pub fn new(op: &Attention, handle: &Handle) -> Result<Self> {
        let (bindings, graph) = build(op)?;
        let finalized = graph.finalize(Some(handle))?;
        let configurations = configurations(&finalized, None)?;
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
        let (count, mut refusal) = (configurations.len(), None);
        let mut numbered = configurations.into_iter().enumerate();
        let chosen = numbered.find_map(|(number, configuration)| {
            match compiled(&configuration, |plan| plan.set(name, &[handle.raw()])) {
                Ok(plan) => Some((number, configuration, plan)),
                Err(error) => {
                    refusal.get_or_insert(error);
                    None
                }
            }
        });
        let (number, configuration, plan) = chosen.ok_or_else(|| {
            let op = Op::Attention(*op);
            let reason = refusal.map_or_else(String::new, |error| format!("; the first: {error}"));
            Error::infeasible(format!(
                "cuDNN has {count} engines for {op}, none that finalizes{reason}"
            ))
        })?;
        let mut planned = planned(&plan)?;
        if number > 0 {
            planned.kernel.push_str(&format!(" (engine {number} of the heuristic)"));
        }
        let values = bindings.iter().filter_map(|(_, binding)| match binding {
            Binding::Value(value) => Some(*value),
            _ => None,
        });
        Ok(Self {
            planned,
            values: values.collect(),
            plan,
            _configuration: configuration,
            _finalized: finalized,
            _graph: graph,
            bindings,
        })
    }

    /// Sizes in bytes of the scratch tensors, besides the plan's workspace.
    pub fn scratch_bytes(&self) -> Vec<u64> {
        let scratch = self.bindings.iter().filter_map(|(_, binding)| match binding {
            Binding::Scratch(bytes) => Some(*bytes),
            _ => None,
        });
        scratch.collect()
    }

    /// Binds every tensor: operands to the addresses of `operand`, scratch tensors to `scratch` in
    /// order, values to the plan's own.
    pub fn bind(&self, operand: impl Fn(&str) -> u64, scratch: &[u64]) -> Bound {
        let (mut scratch, mut values) = (scratch.iter(), self.values.iter());
        let mut bound = Bound {
            numbers: Vec::with_capacity(self.bindings.len()),
            addresses: Vec::with_capacity(self.bindings.len()),
        };
        for (number, binding) in &self.bindings {
            let address = match binding {
                Binding::Operand(name) => Some(operand(name) as *mut c_void),
                Binding::Scratch(_) => scratch.next().map(|&address| address as *mut c_void),
                Binding::Value(_) => values.next().map(|value| {
                    let value: *const f32 = value;
                    value.cast_mut().cast()
                }),
            };
            bound.numbers.push(*number);
            bound.addresses.push(address.unwrap_or(std::ptr::null_mut()));
        }
        bound
    }

    /// Enqueues the plan on the handle's stream.
    ///
    /// # Safety
    ///
    /// The tensors must be bound to memory of their sizes, and `workspace` must have the bytes that
    /// the plan asks for.
    pub unsafe fn run(&self, handle: &Handle, bound: &Bound, workspace: u64) -> Result<()> {
        let kind = Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
        let pack = Descriptor::new(kind, "the bindings of a plan")?;
        let workspace = workspace as *mut c_void;
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &bound.addresses)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &bound.numbers)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[workspace])?;
        let pack = pack.finalize()?;
        // SAFETY: handle, plan and bindings are alive; the caller vouches for the memory.
        let status = unsafe { sys::cudnnBackendExecute(handle.raw(), self.plan.raw(), pack.raw()) };
        succeed(status, "run a plan")
    }
}
