//! Laws of the loss over size, tokens, layers and width: `data/loss/law.toml`.

use crate::error::{Error, Result};
use crate::named_enum;
use crate::toml_text;
use serde::Deserialize;
use shapewise_data::LOSS_LAW;

const PLACE: &str = LOSS_LAW.place;

named_enum! {
    /// How a law depends on the shape; `data/loss/law.toml` has the formulas.
    Form {
        /// Through hidden width over layers, which makes parameters worth less.
        Aspect = "aspect",
        /// Through layers and width, a power each.
        WidthDepth = "width-depth",
        /// Not at all.
        Total = "total",
    }
}

impl Form {
    /// The names of the coefficients, in order.
    pub const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Aspect => &["E", "lnA", "a", "lnB", "b", "kappa", "lnR0", "q_wide", "q_deep"],
            Self::WidthDepth => &["E", "lnA", "a", "lnB", "b", "lnW", "aw", "lnL", "al"],
            Self::Total => &["E", "lnA", "a", "lnB", "b"],
        }
    }
}

named_enum! {
    /// The learning rate over the runs that a law was fitted to.
    Schedule {
        /// Annealed over the run: its end says what so many tokens give.
        Annealed = "annealed",
        /// Constant: only differences between shapes count.
        Constant = "constant",
    }
}

/// What a law needs of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Transformer layers.
    pub layers: f64,
    /// Hidden width.
    pub width: f64,
    /// Parameters of the blocks that a token visits.
    pub blocks: f64,
    /// Parameters of the embedding and the head matrix.
    pub embeddings: f64,
}

impl Size {
    /// All parameters that a token visits.
    pub fn parameters(&self) -> f64 {
        self.blocks + self.embeddings
    }

    /// Hidden width over layers.
    pub fn aspect_ratio(&self) -> f64 {
        self.width / self.layers
    }

    /// The shape with these proportions whose layers and width are `factor` times as many.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            layers: self.layers * factor,
            width: self.width * factor,
            blocks: self.blocks * factor.powi(3),
            embeddings: self.embeddings * factor,
        }
    }
}

/// One law: a form with its coefficients.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    form: Form,
    coefficients: Vec<f64>,
    /// For a law without a term of the shape: coefficients of the aspect form whose penalty it takes.
    penalty: Option<Vec<f64>>,
}

impl Law {
    /// A law of this form; fails where the coefficients are not as many or not finite.
    pub fn new(form: Form, coefficients: Vec<f64>) -> Result<Self> {
        let right = coefficients.len() == form.columns().len() && coefficients.iter().all(|value| value.is_finite());
        if !right {
            let allowed = format!("{} finite numbers", form.columns().len());
            let given = format!("{coefficients:?}");
            return Err(Error::field(PLACE, "draws", &given, &allowed));
        }
        Ok(Self {
            form,
            coefficients,
            penalty: None,
        })
    }

    /// The coefficients, in the order of [`Form::columns`].
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// The loss after infinitely many tokens, nats per token.
    pub fn floor(&self, size: &Size) -> f64 {
        let c = &self.coefficients;
        let of_parameters = |count: f64| (c[1] - c[2] * (count / 1e8).ln()).exp();
        let ratio = size.aspect_ratio().ln();
        c[0] + match self.form {
            Form::Aspect => {
                let worth = (-penalty(c, ratio)).exp();
                of_parameters((size.blocks + c[5] * size.embeddings) * worth)
            }
            Form::WidthDepth => {
                let of_width = (c[5] - c[6] * (size.width / 512.0).ln()).exp();
                let of_layers = (c[7] - c[8] * (size.layers / 12.0).ln()).exp();
                of_width + of_layers + of_parameters(size.parameters())
            }
            Form::Total => {
                let penalty = self.penalty.as_ref().map_or(0.0, |c| penalty(c, ratio));
                (c[1] - c[2] * (size.parameters().ln() - penalty)).exp()
            }
        }
    }

    /// What this many tokens leave above the floor, nats per token.
    pub fn of_tokens(&self, tokens: f64) -> f64 {
        let c = &self.coefficients;
        (c[3] - c[4] * (tokens / self.unit()).ln()).exp()
    }

    /// The tokens that leave this much above the floor; infinite where nothing may be left.
    pub fn tokens(&self, above_floor: f64) -> f64 {
        if above_floor <= 0.0 {
            return f64::INFINITY;
        }
        let c = &self.coefficients;
        self.unit() * ((c[3] - above_floor.ln()) / c[4]).exp()
    }

    /// The loss of a shape after this many tokens, nats per token.
    pub fn loss(&self, size: &Size, tokens: f64) -> f64 {
        self.floor(size) + self.of_tokens(tokens)
    }

    const fn unit(&self) -> f64 {
        match self.form {
            Form::Total => 1.0,
            Form::Aspect | Form::WidthDepth => 1e10,
        }
    }
}

/// The part of the parameters, as a logarithm, that this aspect ratio makes worthless.
fn penalty(aspect: &[f64], ln_ratio: f64) -> f64 {
    let away = ln_ratio - aspect[6];
    let weight = if away > 0.0 { aspect[7] } else { aspect[8] };
    weight * away * away
}

/// Laws of one data set in one form: the fit and its bootstrap draws over shapes.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the data set and the schedule.
    pub name: String,
    /// How it depends on the shape.
    pub form: Form,
    /// The learning rate of the runs.
    pub schedule: Schedule,
    /// The fit first.
    pub draws: Vec<Law>,
}

/// Whose runs laws were fitted to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name in tables of runs.
    pub name: String,
    /// Repository, commit and licence.
    pub source: String,
    /// Layers x width of the shapes of the fit.
    pub shapes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    source: Vec<Source>,
    member: Vec<MemberKeys>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberKeys {
    name: String,
    #[serde(rename = "source")]
    _source: String,
    form: Form,
    schedule: Schedule,
    columns: Vec<String>,
    draws: Vec<Vec<f64>>,
}

/// The laws of `data/loss/law.toml` and whose runs they were fitted to.
pub fn read() -> Result<(Vec<Source>, Vec<Member>)> {
    let document: Document = toml_text::parse(LOSS_LAW.text, PLACE)?;
    let member = |keys: MemberKeys| {
        if keys.columns != keys.form.columns() {
            let allowed = keys.form.columns().join(", ");
            return Err(Error::field(PLACE, "columns", keys.columns.join(", "), &allowed));
        }
        let draws = keys.draws.into_iter();
        let draws: Vec<Law> = draws.map(|draw| Law::new(keys.form, draw)).collect::<Result<_>>()?;
        if draws.is_empty() {
            return Err(Error::field(PLACE, "draws", "empty", "at least the fit"));
        }
        Ok(Member {
            name: keys.name,
            form: keys.form,
            schedule: keys.schedule,
            draws,
        })
    };
    let members = document.member.into_iter().map(member);
    Ok((document.source, members.collect::<Result<_>>()?))
}

/// Laws without a term of the shape, each with the penalty of one of these draws of the aspect form.
pub fn with_penalties(total: &Law, aspect: &[Law]) -> Vec<Law> {
    let penalized = |aspect: &Law| Law {
        penalty: Some(aspect.coefficients.clone()),
        ..total.clone()
    };
    aspect.iter().map(penalized).collect()
}
