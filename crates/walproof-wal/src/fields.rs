//! Structs that tell their fields by name: whoever shows them, or hands them to another language, needs no list of
//! its own that could differ from the struct.

use crate::image::Compression;
use crate::lsn::Lsn;

/// A value, and the names of what is in it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not known, or not there.
    None,
    /// Yes or no.
    Flag(bool),
    /// A count, a size or a location.
    Unsigned(u64),
    /// A time, or another number that may be negative.
    Signed(i64),
    /// A number that need not be whole.
    Real(f64),
    /// A word.
    Text(&'static str),
    /// Values in order.
    List(Vec<Value>),
    /// Values by name, in order.
    Map(Vec<(&'static str, Value)>),
}

/// What can be told as a [`Value`]; of a struct, [`named_fields!`](crate::named_fields) says how.
pub trait ToValue {
    /// The value, fields by their names.
    fn to_value(&self) -> Value;
}

/// Declares a struct of public fields, once: the struct itself, and [`ToValue`], a map of all its fields.
///
/// ```
/// use walproof_wal::{named_fields, ToValue, Value};
///
/// named_fields! {
///     /// Pages.
///     pub struct Pages {
///         /// Those that were read.
///         pub read: u64,
///         /// How long that took, in s.
///         pub seconds: Option<f64>,
///     }
/// }
/// let pages = Pages { read: 3, seconds: None };
/// assert_eq!(pages.to_value(), Value::Map(vec![("read", Value::Unsigned(3)), ("seconds", Value::None)]));
/// ```
#[macro_export]
macro_rules! named_fields {
    (
        $(#[$of_struct:meta])*
        pub struct $name:ident {
            $($(#[$of_field:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$of_struct])*
        pub struct $name {
            $($(#[$of_field])* pub $field: $type,)*
        }

        impl $crate::ToValue for $name {
            fn to_value(&self) -> $crate::Value {
                $crate::Value::Map(vec![
                    $((stringify!($field), $crate::ToValue::to_value(&self.$field)),)*
                ])
            }
        }
    };
}

/// Something for each method of `wal_compression`, in the order of [`Compression::ALL`]; told by their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByMethod<T>(pub [T; Compression::ALL.len()]);

impl<T> ByMethod<T> {
    /// That of one method.
    pub fn of(&mut self, method: Compression) -> &mut T {
        let [pglz, lz4, zstd] = &mut self.0;
        match method {
            Compression::Pglz => pglz,
            Compression::Lz4 => lz4,
            Compression::Zstd => zstd,
        }
    }
}

impl<T: ToValue> ToValue for ByMethod<T> {
    fn to_value(&self) -> Value {
        let names = Compression::ALL.into_iter().map(Compression::name);
        Value::Map(names.zip(self.0.iter().map(T::to_value)).collect())
    }
}

impl ToValue for bool {
    fn to_value(&self) -> Value {
        Value::Flag(*self)
    }
}

impl ToValue for u64 {
    fn to_value(&self) -> Value {
        Value::Unsigned(*self)
    }
}

impl ToValue for i64 {
    fn to_value(&self) -> Value {
        Value::Signed(*self)
    }
}

impl ToValue for f64 {
    fn to_value(&self) -> Value {
        Value::Real(*self)
    }
}

impl ToValue for Lsn {
    fn to_value(&self) -> Value {
        Value::Unsigned(self.0)
    }
}

impl ToValue for Compression {
    fn to_value(&self) -> Value {
        Value::Text(self.name())
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::None, T::to_value)
    }
}

impl<T: ToValue> ToValue for Vec<T> {
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(T::to_value).collect())
    }
}
