//! Something that runs an operator on operands in the pool.

use crate::dataset::Kernel;
use crate::error::Result;
use crate::measure::cuda::driver::Driver;
use crate::measure::cuda::placement::Placement;

/// An operator that is set up for a shape, whatever library runs it.
pub(super) trait Algorithm {
    /// Enqueues one call on the operands of a set; also while the stream is being captured.
    fn enqueue(&self, driver: &Driver, operands: &Placement, set: u64) -> Result<()>;

    /// What runs, where the library tells.
    fn kernel(&self) -> Option<Kernel>;
}
