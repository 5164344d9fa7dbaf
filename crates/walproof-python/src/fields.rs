//! Values with names, as Python has them: a struct that tells its fields becomes a dict.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use walproof_wal::{ToValue, Value};

/// A dict of a struct's fields by their names, structs in it likewise. `walproof.wal.native` makes a dataclass of it.
///
/// # Errors
/// Those of Python: memory.
pub fn fields_dict<'py>(py: Python<'py>, told: &impl ToValue) -> PyResult<Bound<'py, PyDict>> {
    let Value::Map(fields) = told.to_value() else { unreachable!("a struct is told as a map") };
    dict(py, &fields)
}

/// The same of anything that can be told.
///
/// # Errors
/// Those of Python: memory.
pub fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Unsigned(number) => number.into_pyobject(py)?.into_any(),
        Value::Signed(number) => number.into_pyobject(py)?.into_any(),
        Value::Real(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::List(values) => {
            let objects = values.iter().map(|value| object(py, value));
            objects.collect::<PyResult<Vec<_>>>()?.into_pyobject(py)?
        }
        Value::Map(fields) => dict(py, fields)?.into_any(),
    })
}

fn dict<'py>(py: Python<'py>, fields: &[(&'static str, Value)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in fields {
        dict.set_item(name, object(py, value)?)?;
    }
    Ok(dict)
}
