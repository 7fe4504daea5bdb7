//! One key of a document, without the rest of it.

use serde::ser::{Error as _, Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};
use serde_json::Error;

/// Serializes the value of this key alone; whatever is no object has none.
pub struct Of<'a>(pub &'a str);

/// An object of which one key is serialized.
pub struct Object<'a> {
    wanted: &'a str,
    /// Whether the next value of a map is that of the key.
    is_next: bool,
    found: Option<String>,
}

type Found = Option<String>;

macro_rules! no_object {
    ($($name:ident($($value:ty),*);)*) => {
        $(fn $name(self, $(_: $value),*) -> Result<Found, Error> { Ok(None) })*
    };
}

impl<'a> Serializer for Of<'a> {
    type Ok = Found;
    type Error = Error;
    type SerializeSeq = Impossible<Found, Error>;
    type SerializeTuple = Impossible<Found, Error>;
    type SerializeTupleStruct = Impossible<Found, Error>;
    type SerializeTupleVariant = Impossible<Found, Error>;
    type SerializeMap = Object<'a>;
    type SerializeStruct = Object<'a>;
    type SerializeStructVariant = Impossible<Found, Error>;

    no_object! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Found, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Found, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Found, Error> {
        Ok(None)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        Err(Error::custom("a list"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        Err(Error::custom("a list"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Error> {
        Err(Error::custom("a list"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(Error::custom("a list"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Object<'a>, Error> {
        Ok(Object {
            wanted: self.0,
            is_next: false,
            found: None,
        })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Object<'a>, Error> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(Error::custom("a variant"))
    }
}

impl SerializeStruct for Object<'_> {
    type Ok = Found;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        if key == self.wanted {
            self.found = Some(serde_json::to_string(value)?);
        }
        Ok(())
    }

    fn end(self) -> Result<Found, Error> {
        Ok(self.found)
    }
}

impl SerializeMap for Object<'_> {
    type Ok = Found;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let key = serde_json::to_value(key)?;
        self.is_next = key.as_str() == Some(self.wanted);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if self.is_next {
            self.found = Some(serde_json::to_string(value)?);
        }
        Ok(())
    }

    fn end(self) -> Result<Found, Error> {
        Ok(self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_key_is_found_and_no_other() {
        let document = json!({"a": 1.5, "b": [1, 2], "c": null, "d": {"a": 2}});
        for (key, value) in document.as_object().unwrap() {
            let found = document.serialize(Of(key)).unwrap();
            assert_eq!(found, Some(value.to_string()), "{key}");
        }
        assert_eq!(document.serialize(Of("e")).unwrap(), None);
        assert_eq!(json!(1).serialize(Of("a")).unwrap(), None);
    }
}
