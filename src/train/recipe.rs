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
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// GPU it answers for.
    pub gpu: String,
    /// Operators it answers for.
    pub family: Family,
    /// What selects kernels besides the family: the kind of the kernel, its format, or both.
    kind: Option<String>,
    dtype: Option<Dtype>,
    /// Its own table.
    pub stack: String,
    /// Other tables, `gpu / stack`, that the teacher sees.
    #[serde(default)]
    auxiliary: Vec<String>,
    /// How much work goes into it.
    #[serde(default)]
    pub budget: Budget,
    /// What is known of the tiles of its GEMMs beforehand.
    pub waves: Option<Waves>,
    /// Whether the nets see the rows alone, without pseudo-labels of a teacher.
    #[serde(default)]
    pub untaught: bool,
    /// Whether one net learns from the members and takes their place.
    #[serde(default)]
    pub distilled: bool,
    /// Whether the teacher knows what neighbouring pairs `(n, k)` of its GEMMs take.
    #[serde(default)]
    pub kriged: bool,
    /// Collectives of fewer ranks are those of another stack.
    #[serde(default)]
    ranks_from: u64,
    /// The sub-model over all GPUs that learns from it, where that is not the one of the default stacks.
    pub across: Option<String>,
}

impl Recipe {
    /// What selects kernels besides the family.
    pub fn variant(&self) -> Variant {
        self.read_variant().expect("it was read before")
    }

    fn read_variant(&self) -> std::result::Result<Variant, &'static str> {
        Variant::parse(self.family, self.kind.as_deref(), self.dtype)
    }

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
            let (gpu, family) = (&recipe.gpu, recipe.family);
            recipe.read_variant().map_err(|allowed| {
                Error::bad_input(format!("{place}: recipe of {gpu} {family}; allowed: {allowed}"))
            })?;
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
