//! The interface of a library or kernel that runs an operator on operands in the pool.

use crate::dataset::Kernel;
use crate::error::Result;
use crate::measure::cuda::driver::Driver;
use crate::measure::cuda::placement::Placement;

/// An operator that is set up for a shape.
pub(super) trait Algorithm {
    /// Enqueues one call on the operands of a set, also during a capture.
    fn enqueue(&self, driver: &Driver, operands: &Placement, set: u64) -> Result<()>;

    /// The kernel that runs, where the library reports it.
    fn kernel(&self) -> Option<Kernel>;
}
