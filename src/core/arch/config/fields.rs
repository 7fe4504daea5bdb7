//! Typed access to a JSON object that remembers which fields were asked for and refuses the rest.

use super::kinds;
use super::table::table;
use crate::error::{Error, Result, shortened};
use serde_json::{Map, Value};

/// The fields of one JSON object.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    place: &'a str,
    known: Vec<&'static str>,
    /// Fields that must be off and are not.
    on: Vec<&'static str>,
    /// Fields that were not asked for and change no shape.
    passed_over: Vec<String>,
    /// Whether this is the `text_config` of a larger file: `transformers` leaves defaults out of those.
    is_part: bool,
}

impl<'a> Fields<'a> {
    pub fn new(object: &'a Map<String, Value>, place: &'a str) -> Self {
        Self {
            object,
            place,
            known: Vec::new(),
            on: Vec::new(),
            passed_over: Vec::new(),
            is_part: false,
        }
    }

    /// The fields of a `text_config`.
    pub fn of_part(object: &'a Map<String, Value>, place: &'a str) -> Self {
        Self {
            is_part: true,
            ..Self::new(object, place)
        }
    }

    /// The same fields, none of which was asked for.
    pub fn again(&self) -> Self {
        Self {
            is_part: self.is_part,
            ..Self::new(self.object, self.place)
        }
    }

    /// The object with the fields of these parts beside its own as `part.field`, if there are parts.
    pub fn flattened(&mut self, parts: &'static [String]) -> Result<Option<Map<String, Value>>> {
        if parts.is_empty() {
            return Ok(None);
        }
        let mut whole = self.object.clone();
        for part in parts {
            match whole.remove(part) {
                None | Some(Value::Null) => {}
                Some(Value::Object(inside)) => {
                    whole.extend(inside.into_iter().map(|(key, value)| (format!("{part}.{key}"), value)));
                }
                Some(_) => return self.refuse(part, "an object"),
            }
        }
        Ok(Some(whole))
    }

    /// What was asked of these fields, asked of another object.
    pub fn over<'b>(self, object: &'b Map<String, Value>) -> Fields<'b>
    where
        'a: 'b,
    {
        Fields { object, ..self }
    }

    /// The value of a field; `null` counts as absent, as it does in `transformers`.
    fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// Whether the file has this field, even if it is `null`.
    pub fn has(&self, key: &str) -> bool {
        self.object.contains_key(key)
    }

    /// An error about a field of this file.
    pub fn refuse<T>(&self, key: &str, allowed: &str) -> Result<T> {
        let value = self
            .object
            .get(key)
            .map_or_else(|| "missing".to_owned(), Value::to_string);
        Err(Error::field(self.place, key, value, allowed))
    }

    /// A positive or zero integer, if there; also as a list that has it for each layer.
    pub fn optional(&mut self, key: &'static str) -> Result<Option<u64>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match same_in_all(value).as_u64() {
                Some(number) => Ok(Some(number)),
                None => self.refuse(key, "an integer of at least 0"),
            },
        }
    }

    /// A required integer.
    pub fn number(&mut self, key: &'static str) -> Result<u64> {
        match self.optional(key)? {
            Some(number) => Ok(number),
            None => self.refuse(key, "an integer of at least 1"),
        }
    }

    /// A size without which there is no model: only a `text_config` may leave it at its default.
    pub fn size(&mut self, key: &'static str, default: Option<u64>) -> Result<u64> {
        match default.filter(|_| self.is_part) {
            Some(default) => self.number_or(key, default),
            None => self.number(key),
        }
    }

    /// An integer with this default; one of 0 means that the field must be there.
    pub fn number_unless(&mut self, key: &'static str, default: u64) -> Result<u64> {
        match default {
            0 => self.number(key),
            default => self.number_or(key, default),
        }
    }

    /// Number of layers of the first kinds, from a list that has the first or the second kinds alone.
    pub fn layers_of(
        &self,
        key: &str,
        listed: &[&str],
        layers: u64,
        kinds: [&[&str]; 2],
        allowed: &str,
    ) -> Result<u64> {
        let [first, second] = kinds.map(|kinds| listed.iter().filter(|kind| kinds.contains(kind)).count() as u64);
        match listed.len() as u64 == layers && first + second == layers {
            true => Ok(first),
            false => self.refuse(key, allowed),
        }
    }

    /// The first of some names of one field that is in the file, before one that is `null`, else the first name. Further
    /// names may say the same.
    pub fn named<S: AsRef<str>>(&mut self, keys: &'static [S]) -> &'static str {
        let first = keys[0].as_ref();
        let keys = || keys.iter().map(AsRef::as_ref);
        let says = |key: &&str| self.object.get(*key).is_some_and(|value| !value.is_null());
        let found = keys().find(says).or(keys().find(|key| self.has(key)));
        let found = found.unwrap_or(first);
        let value = self.object.get(found);
        self.known.extend(keys().filter(|key| self.object.get(*key) == value));
        found
    }

    /// An integer with the default that `transformers` documents.
    pub fn number_or(&mut self, key: &'static str, default: u64) -> Result<u64> {
        Ok(self.optional(key)?.unwrap_or(default))
    }

    /// The same of one layer, counted from 0, where it may be a list with an item for each.
    pub fn number_of(&mut self, key: &'static str, layer: u64, default: u64) -> Result<u64> {
        match self.get(key).and_then(Value::as_array) {
            None => self.number_or(key, default),
            Some(items) => match items.get(layer as usize).and_then(Value::as_u64) {
                Some(number) => Ok(number),
                None => self.refuse(key, "an integer for each layer"),
            },
        }
    }

    /// A flag with the default that `transformers` documents.
    pub fn flag(&mut self, key: &'static str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => self.refuse(key, "true or false"),
        }
    }

    /// Whether a field says more than its absence would: it is neither `null`, false, 0 nor empty.
    pub fn is_on(&mut self, key: &'static str) -> bool {
        self.get(key).is_some_and(|value| !kinds::says_nothing(value))
    }

    /// A required string.
    pub fn word(&mut self, key: &'static str) -> Result<&'a str> {
        match self.get(key).and_then(Value::as_str) {
            Some(word) => Ok(word),
            None => self.refuse(key, "a string"),
        }
    }

    /// An elementwise function, whose choice changes no shape where it does not gate an MLP that has no gate.
    pub fn activation(&mut self, key: &'static str, is_gated: bool) -> Result<()> {
        match self.get(key) {
            None => Ok(()),
            Some(Value::String(name)) if table().lists.activations.contains(name) => Ok(()),
            Some(Value::String(name)) if is_gated || !name.to_lowercase().contains("glu") => {
                self.passed_over.push(key.to_owned());
                Ok(())
            }
            Some(_) => self.refuse(key, &table().lists.activations.join(", ")),
        }
    }

    /// The head size that follows from the hidden size; `heads_key` is blamed if it is not whole.
    pub fn head_dim(&self, heads_key: &str, hidden: u64, heads: u64) -> Result<u64> {
        if heads > 0 && hidden.is_multiple_of(heads) {
            return Ok(hidden / heads);
        }
        self.refuse(heads_key, &format!("a divisor of the hidden size {hidden}"))
    }

    /// A list of strings, if there.
    pub fn texts(&mut self, key: &'static str) -> Result<Option<Vec<&'a str>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let texts = value
            .as_array()
            .and_then(|items| items.iter().map(Value::as_str).collect());
        match texts {
            Some(texts) => Ok(Some(texts)),
            None => self.refuse(key, "a list of strings"),
        }
    }

    /// A list of integers, if there.
    pub fn numbers(&mut self, key: &'static str) -> Result<Option<Vec<u64>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let numbers = value
            .as_array()
            .and_then(|items| items.iter().map(Value::as_u64).collect());
        match numbers {
            Some(numbers) => Ok(Some(numbers)),
            None => self.refuse(key, "a list of integers"),
        }
    }

    /// A nested object, if there.
    pub fn object(&mut self, key: &'static str) -> Result<Option<Fields<'a>>> {
        let place = self.place;
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(Fields::new(object, place))),
            Some(_) => self.refuse(key, "an object"),
        }
    }

    /// Fields that change nothing this crate computes.
    pub fn ignore<S: AsRef<str>>(&mut self, keys: &'static [S]) {
        self.known.extend(keys.iter().map(AsRef::as_ref));
    }

    /// Fields whose effect is not modelled: absent, null, false, 0 and empty are fine, all else is refused in the end.
    pub fn unsupported(&mut self, keys: &'static [String]) {
        for key in keys {
            if self.is_on(key) {
                self.on.push(key);
            }
        }
    }

    /// A field that may only have one value, its default.
    pub fn only(&mut self, key: &'static str, value: u64) -> Result<()> {
        if self.number_or(key, value)? == value {
            return Ok(());
        }
        self.refuse(key, &format!("{value}; other values are not modelled"))
    }

    /// A value as it is in the file.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.get(key)
    }

    /// Refuses, all at once, fields that must be off and those that were never asked for and may change a shape.
    pub fn finish(&mut self, model_type: &str) -> Result<()> {
        let table = table();
        self.unsupported(&table.lists.off);
        let mut refused: Vec<&str> = self.on.clone();
        let mut passed_over = Vec::new();
        for (key, value) in self.object {
            // Of a part's field, the name inside the part.
            let name = key.rsplit_once('.').map_or(&**key, |(_, name)| name);
            let is_known = self.known.contains(&&**key)
                || table.lists.irrelevant.iter().any(|known| known == name || known == key);
            if is_known || kinds::says_nothing(value) {
                continue;
            }
            match kinds::may_shape(name, value) {
                true => refused.push(key),
                false => passed_over.push(key.clone()),
            }
        }
        self.passed_over.extend(passed_over);
        let Some((first, others)) = refused.split_first() else {
            return Ok(());
        };
        let others: Vec<_> = others
            .iter()
            .map(|key| format!("`{key}` ({})", shortened(&self.object[*key].to_string())))
            .collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!("; nor may there be {}", others.join(", ")),
        };
        let allowed = match self.on.contains(first) {
            true => "absent or false; its effect is not modelled",
            false => &format!("only fields known for model_type `{model_type}`; remove it if it changes no shape"),
        };
        self.refuse(first, &format!("{allowed}{others}"))
    }

    /// Finishes an object inside this one.
    pub fn finish_part(&mut self, mut part: Fields<'_>, model_type: &str) -> Result<()> {
        part.finish(model_type)?;
        self.passed_over.append(&mut part.passed_over);
        Ok(())
    }

    /// Fields that were passed over, as they change no shape.
    pub fn passed_over(self) -> Vec<String> {
        self.passed_over
    }
}

/// The item of a list whose items are equal, else the value itself.
fn same_in_all(value: &Value) -> &Value {
    match value.as_array().map(Vec::as_slice) {
        Some([first, rest @ ..]) if rest.iter().all(|item| item == first) => first,
        _ => value,
    }
}
