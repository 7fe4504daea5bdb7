//! Enums whose variants have one stable name, used on the command line, on disk and on the wire; names near a wrong one.

#[cfg_attr(not(feature = "clap"), path = "absent.rs")]
mod options;

/// Declares a fieldless enum with `ALL`, `name`, `parse`, `Display`, serde, its schema and its values on the command line
/// under the same names.
///
/// What follows `or` is understood where a person or a config writes it, and never written.
///
/// The names are taken as `tt`: inside a `literal` the schema does not see them.
#[doc(hidden)]
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$doc:meta])* $variant:ident = $text:tt $(or $alias:tt)*),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text $(, alias = $alias)*)] $variant),+
        }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Their names.
            pub const NAMES: [&'static str; Self::ALL.len()] = [$($text),+];

            /// The name used on the command line, on disk and on the wire.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }

            /// The variant with this name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.name() == name)
            }
        }

        $crate::option_values! { $name { $($variant = [$($alias),*]),+ } }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

/// How many near matches an unknown name is answered with.
const SUGGESTIONS: usize = 5;

/// Letters of an unknown name that are compared: no name is longer.
const LONGEST_NAME: usize = 64;

/// The names with the fewest edits to this one; first those whose first words it is, then those that it begins.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: String = key(name).chars().take(LONGEST_NAME).collect();
    let mut names: Vec<_> = known
        .map(|name| {
            let key = key(name);
            let begun = !wanted.is_empty() && key.starts_with(&wanted);
            let ends_a_word = name
                .match_indices(['-', '_', ' ', '.'])
                .any(|(end, _)| self::key(&name[..end]) == wanted);
            (!ends_a_word, !begun, edits(&wanted, &key), name)
        })
        .collect();
    names.sort_unstable();
    let nearest = names.into_iter().take(SUGGESTIONS);
    nearest.map(|(.., name)| name).collect()
}

/// The names that a slip of the pen makes this one: a letter in four differs at most.
pub fn misspelt<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: String = key(name).chars().take(LONGEST_NAME).collect();
    let most = (wanted.chars().count() / 4).max(1);
    let mut near = nearest(name, known);
    near.retain(|known| edits(&wanted, &key(known)) <= most);
    near
}

/// What two spellings of one name have in common.
pub fn key(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
