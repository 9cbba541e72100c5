//! Which set, variable and points of a file an argument means.

use super::read_failure;
use crate::failure::Failure;
use afflux::file::{SeriesFile, VariableInfo};

/// A variable of a set, perhaps one component of it.
#[derive(Debug, Clone, Copy)]
pub struct Selected {
    /// Index of the set.
    pub set: usize,
    /// Index of the variable.
    pub variable: usize,
    /// The component; 0 where there is none.
    pub component: u32,
}

/// The set called `name`.
pub fn set(file: &SeriesFile, name: &str) -> Result<usize, Failure> {
    file.set_index(name).map_err(|error| read_failure(&error))
}

/// The variable called `name`, or `name[component]`.
pub fn variable(file: &SeriesFile, set: usize, name: &str) -> Result<Selected, Failure> {
    if let Some(variable) = file.sets()[set].variable_index(name) {
        if let Some(components) = components(&file.sets()[set].variables[variable])
            && components > 1
        {
            return Err(Failure::failed(format!(
                "variable {name} has {components} components; choose one, as in {name}[0]"
            )));
        }
        return Ok(Selected { set, variable, component: 0 });
    }
    let component = name.strip_suffix(']').and_then(|name| name.rsplit_once('['));
    if let Some((base, component)) = component
        && let Some(variable) = file.sets()[set].variable_index(base)
    {
        let count = components(&file.sets()[set].variables[variable]).unwrap_or(0);
        return match (component.parse(), count) {
            (Ok(component), _) if component < count => Ok(Selected { set, variable, component }),
            (_, 0) => Err(Failure::failed(format!("variable {base} has no components; write {base}"))),
            (_, 1) => Err(Failure::failed(format!("variable {base} has one component, {base}[0]"))),
            _ => Err(Failure::failed(format!("variable {base} has components 0 to {}, not {component}", count - 1))),
        };
    }
    // The reader's message lists what there is.
    match file.variable_index(set, name) {
        Ok(variable) => Ok(Selected { set, variable, component: 0 }),
        Err(error) => Err(read_failure(&error)),
    }
}

fn components(variable: &VariableInfo) -> Option<u32> {
    variable.spec.components
}

/// Position of the point with this name, or else with this id.
pub fn point(file: &SeriesFile, set: usize, text: &str) -> Result<u64, Failure> {
    match (file.position_by_name(set, text), text.parse::<i64>()) {
        (Ok(position), _) => Ok(position),
        (Err(_), Ok(id)) => file.position(set, id).map_err(|error| read_failure(&error)),
        (Err(error), Err(_)) => Err(read_failure(&error)),
    }
}
