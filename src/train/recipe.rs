//! Which heads to train, with which sister tables and how much effort: `data/stacks.toml`.

use crate::error::{Error, Result};
use crate::features::Family;
use crate::ops::Dtype;
use crate::regressor::artifact::Waves;
use serde::Deserialize;

/// How much work goes into a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Care {
    /// Few nets, short schedules.
    #[default]
    Usual,
    /// Five nets, long schedules.
    Full,
}

/// One head to train.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// GPU it answers for.
    pub gpu: String,
    /// Operators it answers for.
    pub family: Family,
    /// Format of the operands.
    pub dtype: Dtype,
    /// Its own table.
    pub stack: String,
    /// Other tables, `gpu / stack`, that the teacher sees.
    #[serde(default)]
    pub sisters: Vec<String>,
    /// How much work goes into it.
    #[serde(default)]
    pub care: Care,
    /// What is known of the tiles of its products beforehand.
    #[serde(default)]
    pub waves: Option<Waves>,
}

impl Recipe {
    /// The sister tables as `(gpu, stack)`.
    pub fn sisters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sisters
            .iter()
            .filter_map(|sister| sister.split_once(" / "))
    }

    /// The recipes this build ships, in the order of their preference.
    pub fn shipped() -> Result<Vec<Self>> {
        Self::parse(include_str!("../../data/stacks.toml"), "data/stacks.toml")
    }

    /// Reads recipes; `place` names the file in messages.
    pub fn parse(text: &str, place: &str) -> Result<Vec<Self>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            head: Vec<Recipe>,
        }
        let file: File = toml::from_str(text).map_err(|error| {
            Error::bad_input(format!(
                "{place}: {}",
                error.to_string().trim().replace('\n', " ")
            ))
        })?;
        for recipe in &file.head {
            if let Some(sister) = recipe.sisters.iter().find(|sister| !sister.contains(" / ")) {
                return Err(Error::field(
                    place,
                    "sisters",
                    format!("`{sister}`"),
                    "`gpu / stack`",
                ));
            }
        }
        Ok(file.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;

    #[test]
    fn every_shipped_recipe_names_known_gpus() {
        let recipes = Recipe::shipped().unwrap();
        assert!(recipes.len() > 30);
        for recipe in &recipes {
            assert_eq!(Gpu::find(&recipe.gpu).unwrap().name, recipe.gpu);
            assert_eq!(recipe.sisters().count(), recipe.sisters.len());
            if let Some(waves) = recipe.waves {
                assert_eq!(recipe.family, Family::Gemm, "tiles are those of products");
                assert!(waves.tile.0 > 0 && waves.tile.1 > 0 && (0.0..=1.0).contains(&waves.share));
            }
            for (gpu, _) in recipe.sisters() {
                assert_eq!(Gpu::find(gpu).unwrap().name, gpu);
            }
        }
    }

    #[test]
    fn a_malformed_sister_is_refused() {
        let text =
            "[[head]]\ngpu='h200'\nfamily='gemm'\ndtype='bf16'\nstack='x 1'\nsisters=['h100']\n";
        assert!(
            Recipe::parse(text, "here")
                .unwrap_err()
                .to_string()
                .contains("`sisters` is `h100`")
        );
    }
}
