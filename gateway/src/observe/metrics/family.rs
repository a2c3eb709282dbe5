//! A metric with all its series.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use super::definition::Definition;

/// The series of one metric, by the values of its labels, in their order.
///
/// Who records on the path of a call takes a series out once and keeps it: looking it up takes a lock.
pub(super) struct Family<S> {
    pub(super) definition: &'static Definition,
    new: Box<New<S>>,
    series: RwLock<BTreeMap<Vec<String>, Arc<S>>>,
}

/// Makes the series of these values of the labels.
type New<S> = dyn Fn(&[String]) -> S + Send + Sync;

impl<S> fmt::Debug for Family<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.definition.name).finish()
    }
}

impl<S> Family<S> {
    /// One without a series; `new` makes the series of these values of the labels.
    pub(super) fn new(
        definition: &'static Definition,
        new: impl Fn(&[String]) -> S + Send + Sync + 'static,
    ) -> Self {
        Self { definition, new: Box::new(new), series: RwLock::default() }
    }

    /// The series of these values of the labels, which is made if there is none.
    pub(super) fn of(&self, values: &[&str]) -> Arc<S> {
        debug_assert_eq!(values.len(), self.definition.labels.len(), "{}", self.definition.name);
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let entry = series.entry(values);
        let made = |values: &Vec<String>| Arc::new((self.new)(values));
        Arc::clone(entry.or_insert_with_key(made))
    }

    /// Shows all series, in the order of their labels' values.
    pub(super) fn each(&self, mut show: impl FnMut(&[String], &S)) {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        series.iter().for_each(|(values, series)| show(values, series));
    }

    /// Forgets the series of backends that are not among these. Who still holds one records into the void.
    pub(super) fn retain_backends(&self, names: &[&str]) {
        let Some(place) = self.definition.labels.iter().position(|label| *label == "backend") else { return };
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        series.retain(|values, _| names.contains(&values[place].as_str()));
    }
}
