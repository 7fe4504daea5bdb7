//! The interface of a library or kernel that runs an operator on operands in the pool.

use super::driver::Driver;
use super::placement::Placement;
use crate::dataset::Kernel;
use crate::error::Result;

/// An operator that is set up for a shape.
pub trait Algorithm {
    /// Enqueues one call on the operands of a set, also during a capture.
    fn enqueue(&self, driver: &Driver, operands: &Placement, set: u64) -> Result<()>;

    /// The kernel that runs, where the library reports it.
    fn kernel(&self) -> Option<Kernel>;
}
