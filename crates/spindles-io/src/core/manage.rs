//! Devices take places in arrays: of what is missing, and of members that still work.

use super::carry::{Array, ArrayIndex, Carry, Node};
use super::tree::{arrays_above, in_use};
use crate::errors::AttachError;
use crate::members::DeviceIndex;
use crate::probe::Probe;
use crate::{TooSmall, identity, labels, random};
use spindles_block::MemberIndex;
use spindles_engine::{Command, Member};
use spindles_format::{ArrayRecord, DeviceRecord, Uuid, areas_to_join, returns_since};

/// A place of an array that waits for a device.
pub(crate) struct Vacancy {
    pub(crate) around: ArrayRecord,
    pub(crate) member: MemberIndex,
    /// An array in another place of it.
    pub(crate) inside: Option<ArrayRecord>,
}

/// The first place that waits for a device, or the one that is wanted.
pub(crate) fn vacancy(carry: &Carry, wanted: Option<MemberIndex>) -> Result<Vacancy, AttachError> {
    let (index, member) = find_missing(carry, wanted)?;
    let array = carry.array(index);
    let record = array.engine().record();
    let record = record.expect("only arrays with superblocks were looked at");
    let nodes = array.members().iter().flatten();
    let mut inside = nodes.filter_map(|node| match node {
        Node::Array(inner) => carry.array(*inner).engine().record().cloned(),
        Node::Device(_) => None,
    });
    Ok(Vacancy {
        member,
        inside: inside.next(),
        around: record.clone(),
    })
}

/// The array of a vacancy, if that still waits for a device.
pub(crate) fn still_waits(carry: &Carry, vacancy: &Vacancy) -> Result<ArrayIndex, AttachError> {
    let member = vacancy.member;
    let waits = |array: &Array| {
        let record = array.engine().record();
        record.is_some_and(|record| record.uuid == vacancy.around.uuid)
            && array.engine().vacancies().contains(member)
    };
    let array = carry.arrays().find(|(_, array)| waits(array));
    array
        .map(|(index, _)| index)
        .ok_or(AttachError::NotMissing {
            member,
            missing: Vec::new(),
        })
}

/// Which place a device would take, and what would lie where on it.
pub(crate) fn may_attach(
    carry: &Carry,
    name: &str,
    wanted: Option<MemberIndex>,
) -> Result<(ArrayIndex, MemberIndex, DeviceRecord), AttachError> {
    let (array, member) = find_missing(carry, wanted)?;
    let room = room_on(carry, name, array, member).map_err(|error| {
        let around = carry.array(array);
        match error {
            AttachError::TooSmall(small) if around.holds_arrays() => {
                let of = around.name();
                let part = format!(
                    " to take the place of all of member {member} of array '{of}', which is itself an array"
                );
                let or = ", or an array, as --onto 'raid0(DEV,DEV)', or bring back the \
                          devices of that array";
                AttachError::TooSmall(small.with_part(part, or))
            }
            error => error,
        }
    })?;
    Ok((array, member, room))
}

/// Puts a device in the place of a missing one, and has it filled.
pub(crate) fn attach(
    carry: &mut Carry,
    name: &str,
    wanted: Option<MemberIndex>,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let (array, member, areas) = may_attach(carry, name, wanted)?;
    let device = add_reserved(carry, name, array, &areas)?;
    join(carry, name, array, member, &areas, Node::Device(device))?;
    Ok((array, member))
}

/// Puts a node that holds nothing in that place, and has it filled.
pub(crate) fn attach_node(
    carry: &mut Carry,
    name: &str,
    node: Node,
    vacancy: &Vacancy,
    areas: &DeviceRecord,
) -> Result<(), AttachError> {
    let array = still_waits(carry, vacancy)?;
    join(carry, name, array, vacancy.member, areas, node)
}

/// Which place a device would take from `old`, and what would lie where on it.
pub(crate) fn may_replace(
    carry: &Carry,
    old: &str,
    name: &str,
) -> Result<(ArrayIndex, MemberIndex, DeviceRecord), AttachError> {
    if let Some((index, member, _)) = member_on(carry, old) {
        let array = carry.array(index);
        let place = usize::from(member.0);
        let state = array.engine().status().members[place].state;
        if state == Member::Active && array.engine().record().is_some() {
            return Ok((index, member, room_on(carry, name, index, member)?));
        }
    }
    Err(AttachError::NotActive {
        device: old.to_owned(),
        active: devices_that(carry, |state| state == Member::Active),
    })
}

/// The array that a device is a member of, the place, and which device it is there.
fn member_on(carry: &Carry, name: &str) -> Option<(ArrayIndex, MemberIndex, DeviceIndex)> {
    let identity = identity::identity(name);
    let is_it = |node: &Option<Node>| match node {
        Some(Node::Device(device)) if !carry.members().is_gone(*device) => {
            let other = &carry.members().facts(*device).name;
            let same = identity.is_some() && identity::identity(other) == identity;
            (other == name || same).then_some(*device)
        }
        _ => None,
    };
    carry.arrays().find_map(|(index, array)| {
        let places = (0..).zip(array.members());
        let mut found = places.filter_map(|(place, node)| Some((MemberIndex(place), is_it(node)?)));
        found.next().map(|(member, device)| (index, member, device))
    })
}

/// The devices of all members in such a state.
fn devices_that(carry: &Carry, is_so: impl Fn(Member) -> bool) -> Vec<String> {
    let members = carry.arrays().flat_map(|(_, array)| {
        let states = array.engine().status().members.into_iter();
        let states: Vec<bool> = states.map(|member| is_so(member.state)).collect();
        states.into_iter().zip(array.members())
    });
    let devices = members.filter_map(|(is_so, node)| match node {
        Some(Node::Device(device)) if is_so => Some(carry.members().facts(*device)),
        _ => None,
    });
    devices.map(|facts| facts.name.clone()).collect()
}

/// Puts the member out that a device is.
pub(crate) fn fail(
    carry: &mut Carry,
    name: &str,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let Some((array, member, _)) = member_on(carry, name) else {
        let is_there = |state| !matches!(state, Member::Missing { .. });
        return Err(AttachError::NotMember {
            device: name.to_owned(),
            active: devices_that(carry, is_there),
        });
    };
    carry
        .command(array, Command::Fail(member))
        .map_err(|reason| AttachError::StaysIn {
            array: carry.array(array).name().to_owned(),
            outermost: outermost(carry, array).to_owned(),
            device: name.to_owned(),
            reason,
        })?;
    Ok((array, member))
}

/// The name by which commands take an array: its own, or that of the one around it.
pub(crate) fn outermost(carry: &Carry, array: ArrayIndex) -> &str {
    let outermost = arrays_above(carry, array).last();
    carry.array(outermost.unwrap_or(array)).name()
}

/// Closes the device of a member that is out, so that others may have it.
pub(crate) fn let_go(
    carry: &mut Carry,
    name: &str,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let is_out = |state| matches!(state, Member::Missing { .. });
    if let Some((array, member, device)) = member_on(carry, name) {
        let state = carry.array(array).engine().status().members[usize::from(member.0)].state;
        if is_out(state) {
            carry.members_mut().let_go(device);
            return Ok((array, member));
        }
    }
    Err(AttachError::NotOut {
        device: name.to_owned(),
        out: devices_that(carry, is_out),
    })
}

/// Lets a member that came back on that device have what it missed.
pub(crate) fn bring_back(
    carry: &mut Carry,
    name: &str,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let not_returning = || AttachError::NotReturning {
        device: name.to_owned(),
    };
    let found = Probe::glance(name).ok_or_else(not_returning)?.found();
    let (record, areas) = found.record().map_err(|_| not_returning())?;
    let (member, areas) = (areas.member, *areas);
    let array = in_use(carry).find(|(_, array)| {
        let truth = array.engine().record();
        truth.is_some_and(|truth| {
            truth.uuid == record.uuid && returns_since(truth, &found).is_some()
        })
    });
    let (array, _) = array.ok_or_else(not_returning)?;
    let status = carry.array(array).engine().status();
    if !matches!(
        status.members[usize::from(member.0)].state,
        Member::Missing { .. }
    ) {
        return Err(not_returning());
    }
    if let Some((_, _, held)) = member_on(carry, name) {
        carry.members_mut().let_go(held);
    }
    let device = carry.add_device_meanwhile(name)?;
    carry.put_in(array, member, Node::Device(device));
    let command = Command::Return {
        member,
        device: Box::new(areas),
    };
    command_for(carry, name, array, command)?;
    Ok((array, member))
}

/// Has the member that the device `old` is copied onto another device, which takes its place.
pub(crate) fn replace(
    carry: &mut Carry,
    old: &str,
    name: &str,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let (array, member, areas) = may_replace(carry, old, name)?;
    let device = add_reserved(carry, name, array, &areas)?;
    let uuid = new_uuid(name)?;
    carry.put_replacement(array, device);
    let command = Command::Replace {
        member,
        device: Box::new(areas),
        uuid,
    };
    command_for(carry, name, array, command)?;
    Ok((array, member))
}

/// The first missing member: of arrays of devices before those of arrays, inner ones first. A device
/// that is large enough stands for a whole inner array as well.
fn find_missing(
    carry: &Carry,
    wanted: Option<MemberIndex>,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let of_devices = arrays_of_devices(carry);
    let of_arrays = in_use(carry).filter(|(_, array)| array.engine().record().is_some());
    let missing = of_devices.chain(of_arrays).flat_map(|(index, array)| {
        let members = array.engine().status().members.into_iter();
        let missing = members.filter(|it| matches!(it.state, Member::Missing { .. }));
        missing.map(move |it| (index, it.member))
    });
    let missing: Vec<(ArrayIndex, MemberIndex)> = missing.collect();
    let mut fit = missing.iter().copied();
    let found = fit.find(|(_, member)| wanted.is_none_or(|wanted| wanted == *member));
    found.ok_or_else(|| {
        let name = |&(index, member): &(ArrayIndex, MemberIndex)| {
            format!("member {member} of array '{}'", carry.array(index).name())
        };
        let mut missing: Vec<String> = missing.iter().map(name).collect();
        missing.dedup();
        wanted.map_or(AttachError::NothingMissing, |member| {
            AttachError::NotMissing { member, missing }
        })
    })
}

/// Arrays in use with superblocks that have no other arrays for members.
pub(super) fn arrays_of_devices(carry: &Carry) -> impl Iterator<Item = (ArrayIndex, &Array)> {
    in_use(carry).filter(|(_, array)| array.engine().record().is_some() && !array.holds_arrays())
}

/// What would lie where on a device that becomes this member of an array with superblocks.
fn room_on(
    carry: &Carry,
    name: &str,
    array: ArrayIndex,
    member: MemberIndex,
) -> Result<DeviceRecord, AttachError> {
    let bytes = Probe::peek(name)?.bytes; // Clients wait meanwhile.
    let record = carry.array(array).engine().record();
    let record = record.expect("only arrays with superblocks were looked at");
    Ok(areas_to_join(record, bytes, member).map_err(TooSmall::of(name))?)
}

/// Opens a device and clears it for a place of that array. Until it is a member it is the array's
/// spare: so a command that is repeated after a crash finds whose it is.
fn add_reserved(
    carry: &mut Carry,
    name: &str,
    array: ArrayIndex,
    areas: &DeviceRecord,
) -> Result<DeviceIndex, AttachError> {
    let record = carry.array(array).engine().record();
    let array = record.expect("an array with superblocks").uuid;
    let device = carry.add_device_meanwhile(name)?;
    if let Err(source) = labels::reserve(name, array, areas) {
        carry.members_mut().let_go(device);
        let device = name.to_owned();
        return Err(AttachError::Clear { device, source });
    }
    Ok(device)
}

/// Puts a node that is cleared in the place of a missing one.
pub(super) fn join(
    carry: &mut Carry,
    name: &str,
    array: ArrayIndex,
    member: MemberIndex,
    areas: &DeviceRecord,
    node: Node,
) -> Result<(), AttachError> {
    let uuid = new_uuid(name)?;
    carry.put_in(array, member, node);
    let command = Command::Rebuild {
        member,
        device: Box::new(*areas),
        uuid,
    };
    command_for(carry, name, array, command)
}

/// Asks an array to take a device.
fn command_for(
    carry: &mut Carry,
    name: &str,
    array: ArrayIndex,
    command: Command,
) -> Result<(), AttachError> {
    carry
        .command(array, command)
        .map_err(|reason| AttachError::Refused {
            device: name.to_owned(),
            reason,
        })
}

fn new_uuid(name: &str) -> Result<Uuid, AttachError> {
    random::uuid().map_err(|error| AttachError::Clear {
        device: name.to_owned(),
        source: std::io::Error::other(error),
    })
}
