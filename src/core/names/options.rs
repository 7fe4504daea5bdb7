//! Enums as values of options of the command line.

/// The values of an option of the command line, where this package knows options.
#[doc(hidden)]
#[macro_export]
macro_rules! option_values {
    ($name:ident { $($variant:ident = [$($alias:tt),*]),+ }) => {
        impl clap::ValueEnum for $name {
            fn value_variants<'a>() -> &'a [Self] {
                &Self::ALL
            }

            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                let aliases: &[&'static str] = match self {
                    $(Self::$variant => &[$($alias),*]),+
                };
                let value = clap::builder::PossibleValue::new(self.name());
                Some(value.aliases(aliases.iter().copied()))
            }
        }
    };
}
