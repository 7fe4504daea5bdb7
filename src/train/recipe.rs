//! Which sub-models to train, with which auxiliary tables and how much effort: `data/stacks.toml`.

use crate::error::{Error, Result};
use crate::families::{Family, Variant};
use crate::named_enum;
use crate::ops::Dtype;
use crate::regressor::artifact::Waves;
use crate::toml_text;
use serde::Deserialize;
use shapewise_data::STACKS;
use std::collections::BTreeMap;

named_enum! {
    /// How much work goes into a sub-model.
    #[derive(Default)]
    Budget {
        /// Few nets, short schedules.
        #[default]
        Standard = "standard",
        /// Five nets, long schedules.
        Large = "large",
    }
}

/// One sub-model to train.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RecipeFields")]
pub struct Recipe {
    /// GPU it answers for.
    pub gpu: String,
    /// Operators it answers for.
    pub family: Family,
    /// What selects kernels besides the family.
    pub variant: Variant,
    /// Its own table.
    pub stack: String,
    /// Other tables, `gpu / stack`, that the teacher sees.
    auxiliary: Vec<String>,
    /// How much work goes into it.
    pub budget: Budget,
    /// What is known of the tiles of its GEMMs beforehand.
    pub waves: Option<Waves>,
    /// Whether the nets see the rows alone, without pseudo-labels of a teacher.
    pub untaught: bool,
    /// Whether one net learns from the members and takes their place.
    pub distilled: bool,
    /// Whether the teacher knows what neighbouring pairs `(n, k)` of its GEMMs take.
    pub kriged: bool,
    /// Collectives of fewer ranks are those of another stack.
    ranks_from: u64,
    /// The sub-model over all GPUs that learns from it, where that is not the one of the default stacks.
    pub across: Option<String>,
}

/// A recipe on disk: the variant is the kind of the kernel, its format, or both.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFields {
    gpu: String,
    family: Family,
    kind: Option<String>,
    dtype: Option<Dtype>,
    stack: String,
    #[serde(default)]
    auxiliary: Vec<String>,
    #[serde(default)]
    budget: Budget,
    waves: Option<Waves>,
    #[serde(default)]
    untaught: bool,
    #[serde(default)]
    distilled: bool,
    #[serde(default)]
    kriged: bool,
    #[serde(default)]
    ranks_from: u64,
    across: Option<String>,
}

impl TryFrom<RecipeFields> for Recipe {
    type Error = String;

    fn try_from(fields: RecipeFields) -> std::result::Result<Self, String> {
        let (gpu, family) = (fields.gpu, fields.family);
        let variant = Variant::parse(family, fields.kind.as_deref(), fields.dtype)
            .map_err(|allowed| format!("recipe of {gpu} {family}; allowed: {allowed}"))?;
        Ok(Self {
            gpu,
            family,
            variant,
            stack: fields.stack,
            auxiliary: fields.auxiliary,
            budget: fields.budget,
            waves: fields.waves,
            untaught: fields.untaught,
            distilled: fields.distilled,
            kriged: fields.kriged,
            ranks_from: fields.ranks_from,
            across: fields.across,
        })
    }
}

impl Recipe {
    /// The auxiliary tables as `(gpu, stack)`.
    pub fn auxiliary(&self) -> impl Iterator<Item = (&str, &str)> {
        self.auxiliary.iter().filter_map(|table| table.split_once(" / "))
    }

    /// The least ranks of the collectives that its own table is asked for, where that is not of all.
    pub fn ranks_from<'a>(&'a self, stack: &'a str) -> BTreeMap<(&'a str, &'a str), u64> {
        let only = (self.ranks_from > 0).then_some(((self.gpu.as_str(), stack), self.ranks_from));
        only.into_iter().collect()
    }

    /// The recipes this build ships, in the order of their preference.
    pub fn shipped() -> Result<Vec<Self>> {
        Self::parse(STACKS.text, STACKS.place)
    }

    /// Reads recipes; `place` names the file in messages.
    pub fn parse(text: &str, place: &str) -> Result<Vec<Self>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            submodel: Vec<Recipe>,
        }
        let file: File = toml_text::parse(text, place)?;
        for recipe in &file.submodel {
            if let Some(table) = recipe.auxiliary.iter().find(|table| !table.contains(" / ")) {
                return Err(Error::field(place, "auxiliary", format!("`{table}`"), "`gpu / stack`"));
            }
        }
        Ok(file.submodel)
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
            assert_eq!(recipe.auxiliary().count(), recipe.auxiliary.len());
            if let Some(waves) = recipe.waves {
                assert_eq!(recipe.family, Family::Gemm, "tiles are those of GEMMs");
                assert!(waves.tile.0 > 0 && waves.tile.1 > 0 && (0.0..=1.0).contains(&waves.share));
            }
            for (gpu, _) in recipe.auxiliary() {
                assert_eq!(Gpu::find(gpu).unwrap().name, gpu);
            }
        }
    }

    #[test]
    fn a_malformed_auxiliary_table_is_refused() {
        let text = "[[submodel]]\ngpu='h200'\nfamily='gemm'\ndtype='bf16'\nstack='x 1'\nauxiliary=['h100']\n";
        assert!(
            Recipe::parse(text, "here")
                .unwrap_err()
                .to_string()
                .contains("`auxiliary` is `h100`")
        );
    }
}
