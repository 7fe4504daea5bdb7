//! Plans for a device that is not there, described by its properties: for tests without a GPU.

use super::build;
use super::descriptor::Descriptor;
use crate::error::Result;
use crate::measure::cuda::cudnn::plan::{Planned, compiled, configurations, planned};
use crate::measure::cuda::libraries::Library;
use crate::ops::Attention;
use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

/// Properties of a device, which may be absent, as JSON for cuDNN.
pub struct DeviceProperties(Descriptor);

impl DeviceProperties {
    /// Parses the JSON of `CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`.
    pub fn from_json(json: &str) -> Result<Self> {
        Library::Cudnn.require()?;
        let kind = Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;
        let properties = Descriptor::new(kind, "the properties of a device")?;
        let name = Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
        properties.set(name, json.as_bytes())?;
        Ok(Self(properties.finalize()?))
    }
}

/// Number of cuDNN's engine configurations for an operator on a described device, and with
/// `compile` the first plan.
///
/// It needs no device; without a driver's library there are no configurations.
pub fn candidates(op: &Attention, device: &DeviceProperties, compile: bool) -> Result<(usize, Option<Planned>)> {
    let (_, graph) = build(op)?;
    let finalized = graph.finalize(None)?;
    let configurations = configurations(&finalized, Some(&device.0))?;
    let first = configurations.first().filter(|_| compile);
    let name = Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP;
    let first = first.map(|configuration| planned(&compiled(configuration, |plan| plan.descriptor(name, &device.0))?));
    Ok((configurations.len(), first.transpose()?))
}
