//! In the place of options of the command line where `clap` was not compiled in.

/// Nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! option_values {
    ($($values:tt)*) => {};
}
