//! Registration: who has which point, and where it stands in the file.
//!
//! Every rank sends its points to rank 0 in one message for all sets; rank 0 sorts them by id, settles duplicates and orphans, and
//! answers with each point's position. Two collectives whatever the number of points, sets and ranks; time n log n on rank 0. Order and
//! identity follow from the ids alone, so they do not depend on the rank count.

use afflux_container::{PointTable, SetSpec};

use crate::wire::{Damaged, Decoder, Encoder};
use crate::{Duplicates, OpenError, Orphans, Point, ProbeSet};

/// Position of a registered point that another rank keeps.
pub(crate) const NOT_OWNED: u64 = u64::MAX;

/// Names in a message at most: a wrong mesh can make thousands of duplicates.
const NAMES_MAX: usize = 8;

/// What rank 0 learnt about one set.
#[derive(Debug)]
pub(crate) struct Registered {
    /// The points in file order.
    pub table: PointTable,
    /// For each rank, the position of each point it registered, in its registration order; [`NOT_OWNED`] for the others.
    pub positions: Vec<Vec<u64>>,
    /// Positions of the points that nobody registered.
    pub orphans: Vec<u64>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Appends this rank's points of `set` to its registration message.
pub(crate) fn encode_points(set: &ProbeSet, message: &mut Encoder) {
    message.word(set.local_points().count() as u64);
    for point in set.local_points() {
        message.word(point.id.cast_unsigned());
        for coordinate in [point.x, point.y, point.z] {
            message.word(coordinate.to_bits());
        }
        match &point.name {
            Some(name) => message.word(1).text(name),
            None => message.word(0),
        };
    }
}

/// Reads what [`encode_points`] wrote.
pub(crate) fn decode_points(message: &mut Decoder<'_>) -> Result<Vec<Point>, Damaged> {
    let count = message.count(5 * 8)?;
    (0..count)
        .map(|_| {
            let id = message.word()?.cast_signed();
            let mut coordinate = || message.word().map(f64::from_bits);
            let (x, y, z) = (coordinate()?, coordinate()?, coordinate()?);
            let name = if message.word()? == 1 { Some(message.text()?.to_owned()) } else { None };
            Ok(Point { id, x, y, z, name })
        })
        .collect()
}

/// Checks this rank's points before anything is sent: coordinates must be finite.
pub(crate) fn check_points(set: &ProbeSet) -> Result<(), OpenError> {
    let listed = set.local_points().chain(&set.expected);
    for point in listed {
        if ![point.x, point.y, point.z].iter().all(|coordinate| coordinate.is_finite()) {
            return Err(OpenError::Points {
                set: set.name.clone(),
                problem: format!(
                    "point {} has the coordinates ({}, {}, {}); give finite ones",
                    point.label(),
                    point.x,
                    point.y,
                    point.z
                ),
            });
        }
    }
    Ok(())
}

/// Settles one set on rank 0: `points[rank]` are the points each rank registered.
pub(crate) fn settle(set: &ProbeSet, points: Vec<Vec<Point>>) -> Result<Registered, OpenError> {
    let refuse = |problem: String| OpenError::Points { set: set.name.clone(), problem };
    let mut warnings = Vec::new();
    let mut positions: Vec<Vec<u64>> = points.iter().map(|list| vec![NOT_OWNED; list.len()]).collect();
    // (id, rank, index on that rank): sorting puts the lowest rank's registration of an id first.
    let mut keys: Vec<(i64, usize, usize)> = points
        .iter()
        .enumerate()
        .flat_map(|(rank, list)| list.iter().enumerate().map(move |(index, point)| (point.id, rank, index)))
        .collect();
    keys.sort_unstable();
    let mut duplicates = Vec::new();
    let mut owned: Vec<(i64, Option<(usize, usize)>)> = Vec::with_capacity(keys.len());
    for &(id, rank, index) in &keys {
        match owned.last() {
            Some(&(last, Some((owner, first)))) if last == id => {
                let label = points[owner][first].label();
                duplicates.push(format!("{label} (ranks {owner} and {rank})"));
            }
            _ => owned.push((id, Some((rank, index)))),
        }
    }
    if !duplicates.is_empty() {
        let text = format!(
            "{} registered more than once: {}",
            count_of(duplicates.len(), "point is", "points are"),
            names(&duplicates)
        );
        match set.duplicates {
            Duplicates::Refuse => {
                return Err(refuse(format!(
                    "{text}; register each point on one rank, or choose Duplicates::LowestRank for points on shared faces"
                )));
            }
            Duplicates::LowestRank => warnings.push(format!("set `{}`: {text}; the lowest rank keeps each", set.name)),
        }
    }
    let missing: Vec<&Point> =
        set.expected.iter().filter(|point| owned.binary_search_by_key(&point.id, |&(id, _)| id).is_err()).collect();
    if !missing.is_empty() {
        let labels: Vec<String> = missing.iter().map(|point| point.label()).collect();
        let text = format!("no rank registered {}: {}", count_of(missing.len(), "point", "points"), names(&labels));
        match set.orphans {
            Orphans::Refuse => {
                return Err(refuse(format!(
                    "{text}; are they outside the domain? Choose Orphans::Fill to keep them with fill values"
                )));
            }
            Orphans::Fill => {
                warnings.push(format!("set `{}`: {text}; they stand in the file with fill values", set.name))
            }
        }
        owned.extend(missing.iter().map(|point| (point.id, None)));
        owned.sort_unstable();
        if let Some(pair) = owned.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(refuse(format!("the expected points have the id {} twice", pair[0].0)));
        }
    }
    let mut table = PointTable::default();
    let mut orphans = Vec::new();
    let expected: std::collections::HashMap<i64, &Point> = missing.iter().map(|point| (point.id, *point)).collect();
    for (position, &(id, owner)) in owned.iter().enumerate() {
        let point = match owner {
            Some((rank, index)) => {
                positions[rank][index] = position as u64;
                &points[rank][index]
            }
            None => {
                orphans.push(position as u64);
                expected[&id]
            }
        };
        table.ids.push(id);
        table.x.push(point.x);
        table.y.push(point.y);
        table.z.push(point.z);
        table.names.push(point.label());
    }
    check_names(&table).map_err(refuse)?;
    Ok(Registered { table, positions, orphans, warnings })
}

/// Names must tell the points apart, and a C string must be able to hold them.
fn check_names(table: &PointTable) -> Result<(), String> {
    let mut sorted: Vec<&str> = table.names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two points are named `{}`; names must be unique within a set", pair[0]));
    }
    match sorted.iter().find(|name| name.is_empty() || name.contains('\0')) {
        Some(name) => Err(format!("`{}` cannot be a point's name", name.escape_debug())),
        None => Ok(()),
    }
}

/// The set as the container creates it.
pub(crate) fn set_spec(set: &ProbeSet, table: PointTable, chunk_steps: u64) -> SetSpec {
    SetSpec {
        name: set.name.clone(),
        points: table,
        variables: set.variables.iter().map(|variable| variable.spec.clone()).collect(),
        cadence_steps: set.cadence_steps,
        chunk_steps,
    }
}

fn count_of(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn names(list: &[String]) -> String {
    let shown = list.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    if list.len() > NAMES_MAX { format!("{shown} and {} more", list.len() - NAMES_MAX) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(id: i64) -> Point {
        Point::new(id, id as f64, 0.0, 0.0)
    }

    #[test]
    fn positions_follow_the_ids_whatever_the_ranks() {
        let set = ProbeSet::new("s");
        let one = settle(&set, vec![[9, 3, 5, 1].map(point).to_vec()]).unwrap();
        let two = settle(&set, vec![vec![point(5)], vec![], vec![point(1), point(9), point(3)]]).unwrap();
        assert_eq!(one.table, two.table);
        assert_eq!(one.table.ids, [1, 3, 5, 9]);
        assert_eq!(one.positions, [vec![3, 1, 2, 0]]);
        assert_eq!(two.positions, [vec![2], vec![], vec![0, 3, 1]]);
    }

    #[test]
    fn r9_a_point_on_a_face_has_one_owner() {
        let points = vec![vec![point(1), point(2)], vec![point(2), point(3)]];
        let refused = settle(&ProbeSet::new("s"), points.clone()).unwrap_err();
        assert!(refused.to_string().contains("2 (ranks 0 and 1)"), "{refused}");
        let kept = settle(&ProbeSet::new("s").duplicates(Duplicates::LowestRank), points).unwrap();
        assert_eq!(kept.positions, [vec![0, 1], vec![NOT_OWNED, 2]]);
        assert_eq!(kept.warnings.len(), 1);
    }

    #[test]
    fn r9_a_point_outside_the_domain_is_reported_by_name() {
        let expected = [point(1), point(7).named("far")];
        let refused = settle(&ProbeSet::new("s").expected(expected.clone(), Orphans::Refuse), vec![vec![point(1)]]);
        assert!(refused.unwrap_err().to_string().contains("far"));
        let kept = settle(&ProbeSet::new("s").expected(expected, Orphans::Fill), vec![vec![point(1)]]).unwrap();
        assert_eq!((kept.orphans, kept.table.names), (vec![1], vec!["1".to_owned(), "far".to_owned()]));
    }

    #[test]
    fn equal_names_are_refused() {
        let points = vec![vec![point(1).named("A"), point(2).named("A")]];
        assert!(settle(&ProbeSet::new("s"), points).unwrap_err().to_string().contains("`A`"));
    }

    #[test]
    fn points_travel_whole() {
        let set = ProbeSet::new("s").points([point(-4).named("é"), point(2)]);
        let mut message = Encoder::default();
        encode_points(&set, &mut message);
        let bytes = message.finish();
        let points = decode_points(&mut Decoder::new(&bytes)).unwrap();
        assert_eq!(points, set.local_points().cloned().collect::<Vec<_>>());
    }
}
