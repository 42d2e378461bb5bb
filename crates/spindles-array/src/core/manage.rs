//! Puts devices into arrays: in the places of missing members, and of members that still work.

use super::carry::{Array, ArrayIndex, Carry, Node};
use super::tree::{arrays_above, in_use};
use crate::device_io::DeviceIndex;
use crate::errors::AttachError;
use crate::managed::PlaceWanted;
use crate::{TooSmall, labels};
use spindles_block::MemberIndex;
use spindles_device::probe::Probe;
use spindles_device::seen::Examined;
use spindles_device::{identity, random};
use spindles_engine::{Change, Command, CommandError, Member, Membership, Plan, Role};
use spindles_format::{ArrayRecord, DeviceRecord, Uuid, areas_to_join, returns_since};

/// A place of an array that waits for a device.
#[derive(Debug)]
pub struct Vacancy {
    /// The array.
    pub around: ArrayRecord,
    /// The position.
    pub member: MemberIndex,
    /// An array in another place of the same array.
    pub inside: Option<ArrayRecord>,
}

/// Returns the first place that waits for a device, or the wanted one.
pub(crate) fn vacancy(carry: &Carry, wanted: Option<MemberIndex>) -> Result<Vacancy, AttachError> {
    let (index, member) = find_missing(carry, wanted.into())?;
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

/// Returns the array of a vacancy, if the place still waits for a device.
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

/// A decision that a device joins an array, made before the first write.
pub(crate) struct Coming {
    array: ArrayIndex,
    member: MemberIndex,
    /// The layout of the device.
    areas: DeviceRecord,
    /// The command for the array, which would accept it now.
    command: Command,
}

/// Decides which place a device would take, and checks its size.
pub(crate) fn may_attach(
    carry: &Carry,
    name: &str,
    wanted: PlaceWanted,
) -> Result<Coming, AttachError> {
    let (array, member) = find_missing(carry, wanted)?;
    let role = held(carry, name).map_or(Role::Stranger, |held| held.role);
    let change = match wanted {
        PlaceWanted::Added(_) => Change::Add {
            member,
            device: role,
        },
        PlaceWanted::First | PlaceWanted::Missing(_) => Change::Rebuild {
            member,
            device: role,
        },
    };
    decide(carry, name, array, change)?;
    let areas = room_on(carry, name, array, member).map_err(|error| {
        let around = carry.array(array);
        match error {
            AttachError::TooSmall(small) if around.holds_arrays() => {
                let of = around.name();
                let part = format!(
                    " to take the place of all of member {member} of array '{of}', which is itself \
                     an array"
                );
                let or = ", or an array, as --onto 'raid0(DEV,DEV)', or bring back the \
                          devices of that array";
                AttachError::TooSmall(small.with_part(part, or))
            }
            error => error,
        }
    })?;
    let command = Command::Rebuild {
        member,
        device: Box::new(areas),
        uuid: new_uuid(name)?,
    };
    Ok(Coming {
        array,
        member,
        areas,
        command,
    })
}

impl Coming {
    /// Checks that the array accepts the command now, before the device is touched. This stays true
    /// until the command is sent, because only this thread uses the array.
    pub(super) fn decided(self, carry: &Carry, name: &str) -> Result<Self, AttachError> {
        let taken = carry.array(self.array).engine().may(&self.command);
        taken.map_err(|reason| refused(carry, name, self.array, reason))?;
        Ok(self)
    }
}

/// Returns the state that changes of an array's devices depend on. Treats an array opened read-only
/// as writable.
fn membership(carry: &Carry, array: ArrayIndex) -> Membership {
    Membership {
        read_only: false,
        ..carry.array(array).engine().membership()
    }
}

/// Checks that an array accepts this change of its devices now.
fn decide(
    carry: &Carry,
    name: &str,
    array: ArrayIndex,
    change: Change,
) -> Result<Plan, AttachError> {
    let plan = membership(carry, array).decide(change);
    plan.map_err(|reason| refused(carry, name, array, reason))
}

/// Returns the error for a device that can't join or leave an array.
fn refused(carry: &Carry, name: &str, array: ArrayIndex, reason: CommandError) -> AttachError {
    let device = name.to_owned();
    match reason {
        CommandError::InUse(role) => {
            let array = held(carry, name).map_or(array, |held| held.array);
            AttachError::InUse {
                array: carry.array(array).name().to_owned(),
                device,
                role,
            }
        }
        reason => AttachError::Refused { device, reason },
    }
}

/// Puts a device in the place of a missing one, and starts to fill it.
pub(crate) fn attach(
    carry: &mut Carry,
    name: &str,
    wanted: PlaceWanted,
    seen: Examined,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let coming = may_attach(carry, name, wanted)?.decided(carry, name)?;
    let device = add_reserved(carry, name, &coming, seen)?;
    put_in(carry, name, coming, device)
}

/// Puts an empty node in the vacancy, and starts to fill it.
pub(crate) fn attach_node(
    carry: &mut Carry,
    name: &str,
    node: Node,
    vacancy: &Vacancy,
    areas: &DeviceRecord,
) -> Result<(), AttachError> {
    let array = still_waits(carry, vacancy)?;
    let coming = may_join(carry, name, array, vacancy.member, areas)?.decided(carry, name)?;
    carry.put_in(array, vacancy.member, node);
    command_for(carry, name, array, coming.command)
}

/// Decides that a device of known size takes this place.
pub(super) fn may_join(
    carry: &Carry,
    name: &str,
    array: ArrayIndex,
    member: MemberIndex,
    areas: &DeviceRecord,
) -> Result<Coming, AttachError> {
    let device = held(carry, name).map_or(Role::Stranger, |held| held.role);
    decide(carry, name, array, Change::Rebuild { member, device })?;
    let command = Command::Rebuild {
        member,
        device: Box::new(*areas),
        uuid: new_uuid(name)?,
    };
    Ok(Coming {
        array,
        member,
        areas: *areas,
        command,
    })
}

/// Puts an open and cleared device in the decided place.
pub(super) fn put_in(
    carry: &mut Carry,
    name: &str,
    coming: Coming,
    device: DeviceIndex,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let Coming { array, member, .. } = coming;
    carry.put_in(array, member, Node::Device(device));
    command_for(carry, name, array, coming.command)?;
    Ok((array, member))
}

/// Decides whether a device may take the place of `old`, and checks its size.
pub(crate) fn may_replace(carry: &Carry, old: &str, name: &str) -> Result<Coming, AttachError> {
    let not_active = || AttachError::NotActive {
        device: old.to_owned(),
        active: devices_that(carry, |state| state == Member::Active),
    };
    let Held { array, role, .. } = held(carry, old).ok_or_else(not_active)?;
    let device = held(carry, name).map_or(Role::Stranger, |held| held.role);
    let change = Change::Replace { old: role, device };
    let plan = membership(carry, array).decide(change);
    let member = match (plan, role) {
        (Ok(Plan::Copy(member)), _) => member,
        (Err(CommandError::InUse(used)), role) if used == role => {
            return Err(refused(carry, old, array, CommandError::InUse(role)));
        }
        (Ok(_) | Err(CommandError::NotActive | CommandError::NoSuperblocks), _) => {
            return Err(not_active());
        }
        (Err(reason), _) => return Err(refused(carry, name, array, reason)),
    };
    let areas = room_on(carry, name, array, member)?;
    let command = Command::Replace {
        member,
        device: Box::new(areas),
        uuid: new_uuid(name)?,
    };
    Ok(Coming {
        array,
        member,
        areas,
        command,
    })
}

/// A device that an array has open.
pub(crate) struct Held {
    array: ArrayIndex,
    device: DeviceIndex,
    /// Its role in the array.
    role: Role,
}

/// Returns the array that has a device open, and the device's role there.
fn held(carry: &Carry, name: &str) -> Option<Held> {
    let identity = identity::identity(name);
    let is_it = |device: DeviceIndex| {
        let other = &carry.members().facts(device).name;
        let same = || identity.is_some() && identity::identity(other) == identity;
        !carry.members().is_gone(device) && (other == name || same())
    };
    carry.arrays().find_map(|(index, array)| {
        let membership = array.engine().membership();
        let places = (0..).map(MemberIndex).zip(array.members());
        let devices = places.filter_map(|(place, node)| match node {
            Some(Node::Device(device)) => Some((*device, membership.role_of(place))),
            Some(Node::Array(_)) | None => None,
        });
        let journal = array.journal().map(|device| (device, Role::Journal));
        let mut found = devices.chain(journal).filter(|(device, _)| is_it(*device));
        let (device, role) = found.find(|(_, role)| *role != Role::Stranger)?;
        Some(Held {
            array: index,
            device,
            role,
        })
    })
}

/// Checks that no array uses a device, or is about to.
pub(crate) fn may_leave(carry: &Carry, name: &str) -> Result<(), AttachError> {
    let Some(Held { array, role, .. }) = held(carry, name) else {
        return Ok(());
    };
    decide(carry, name, array, Change::RemoveSpare(role)).map(drop)
}

/// Checks that a device may be a spare of the arrays.
pub(crate) fn may_be_spare(carry: &Carry, name: &str) -> Result<(), AttachError> {
    let device = held(carry, name).map_or(Role::Stranger, |held| held.role);
    let mut arrays = arrays_of_devices(carry).map(|(index, _)| index);
    arrays.try_for_each(|array| decide(carry, name, array, Change::AddSpare(device)).map(drop))
}

/// Checks that the arrays may be closed, changed and opened again. `name` is a device that joins
/// with the change.
pub(crate) fn may_restructure(
    carry: &Carry,
    name: Option<&str>,
    moves: bool,
) -> Result<(), AttachError> {
    let held = name.and_then(|name| held(carry, name));
    let device = held.map_or(Role::Stranger, |held| held.role);
    let change = Change::Restructure { device, moves };
    for (index, array) in in_use(carry) {
        if let Err(reason) = array.engine().membership().decide(change) {
            return Err(match name {
                Some(name) => refused(carry, name, index, reason),
                None => AttachError::Unchanged {
                    array: array.name().to_owned(),
                    reason,
                },
            });
        }
    }
    Ok(())
}

/// Returns the devices of all members whose state satisfies `is_so`.
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

/// Decides whether the member on a device may be put out.
pub(crate) fn may_fail(
    carry: &Carry,
    name: &str,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let not_member = || {
        let is_there = |state| !matches!(state, Member::Missing { .. });
        AttachError::NotMember {
            device: name.to_owned(),
            active: devices_that(carry, is_there),
        }
    };
    let Some(Held { array, role, .. }) = held(carry, name) else {
        return Err(not_member());
    };
    match membership(carry, array).decide(Change::Fail(role)) {
        Ok(Plan::PutOut(member) | Plan::PutOutAndFill(member)) => Ok((array, member)),
        Ok(_) => Err(not_member()),
        Err(reason @ CommandError::InUse(_)) => Err(refused(carry, name, array, reason)),
        Err(reason) => Err(stays_in(carry, name, array, reason)),
    }
}

/// Puts out the member on a device.
pub(crate) fn fail(
    carry: &mut Carry,
    name: &str,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let (array, member) = may_fail(carry, name)?;
    let put_out = carry.command(array, Command::Fail(member));
    put_out.map_err(|reason| stays_in(carry, name, array, reason))?;
    Ok((array, member))
}

/// Returns the error for a member that can't be put out.
fn stays_in(carry: &Carry, name: &str, array: ArrayIndex, reason: CommandError) -> AttachError {
    AttachError::StaysIn {
        array: carry.array(array).name().to_owned(),
        outermost: outermost(carry, array).to_owned(),
        device: name.to_owned(),
        reason,
    }
}

/// Returns the name by which commands select an array: the name of the outermost array around it,
/// or its own name.
pub(crate) fn outermost(carry: &Carry, array: ArrayIndex) -> &str {
    let outermost = arrays_above(carry, array).last();
    carry.array(outermost.unwrap_or(array)).name()
}

/// Closes the device of a member that is out. Other programs can then open the device.
pub(crate) fn let_go(
    carry: &mut Carry,
    name: &str,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let held = held(carry, name);
    let decided = held.as_ref().map(|held| {
        let membership = carry.array(held.array).engine().membership();
        (held, membership.decide(Change::Release(held.role)))
    });
    match decided {
        Some((held, Ok(_))) if let Role::Out(member) = held.role => {
            let (array, device) = (held.array, held.device);
            carry.members_mut().let_go(device);
            Ok((array, member))
        }
        // Working members get `NotOut` instead: they must be put out first.
        Some((held, Err(reason @ CommandError::InUse(role))))
            if !matches!(role, Role::Active(_) | Role::Filling(_)) =>
        {
            Err(refused(carry, name, held.array, reason))
        }
        _ => Err(AttachError::NotOut {
            device: name.to_owned(),
            out: devices_that(carry, |state| matches!(state, Member::Missing { .. })),
        }),
    }
}

/// Lets a member that returns on this device catch up on what it missed.
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
    let membership = carry.array(array).engine().membership();
    if !membership.missing.contains(member) {
        return Err(not_returning());
    }
    let held = held(carry, name);
    let device = held.as_ref().map_or(Role::Stranger, |held| held.role);
    decide(carry, name, array, Change::Return { member, device })?;
    let command = Command::Return {
        member,
        device: Box::new(areas),
    };
    let coming = Coming {
        array,
        member,
        areas,
        command,
    };
    let coming = coming.decided(carry, name)?;
    if let Some(held) = held {
        carry.members_mut().let_go(held.device);
    }
    let device = carry.add_device_meanwhile(name)?;
    put_in(carry, name, coming, device)
}

/// Starts to copy the member on device `old` onto another device, which then takes its place.
pub(crate) fn replace(
    carry: &mut Carry,
    old: &str,
    name: &str,
    seen: Examined,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let coming = may_replace(carry, old, name)?.decided(carry, name)?;
    let device = add_reserved(carry, name, &coming, seen)?;
    let Coming { array, member, .. } = coming;
    carry.put_replacement(array, device);
    command_for(carry, name, array, coming.command)?;
    Ok((array, member))
}

/// Finds the first missing member: arrays of devices before arrays of arrays, inner ones first. A
/// device that is large enough can also replace a whole inner array. `PlaceWanted::First` skips
/// places that a device is about to take, or that a growth keeps for its devices.
fn find_missing(
    carry: &Carry,
    wanted: PlaceWanted,
) -> Result<(ArrayIndex, MemberIndex), AttachError> {
    let of_devices = arrays_of_devices(carry);
    let of_arrays = in_use(carry).filter(|(_, array)| array.engine().record().is_some());
    let missing = of_devices.chain(of_arrays).flat_map(|(index, array)| {
        let missing = array.engine().membership().missing;
        missing.iter().map(move |member| (index, member))
    });
    let missing: Vec<(ArrayIndex, MemberIndex)> = missing.collect();
    let is_free = |&(array, member): &(ArrayIndex, MemberIndex)| {
        let change = Change::Rebuild {
            member,
            device: Role::Stranger,
        };
        !matches!(
            membership(carry, array).decide(change),
            Err(CommandError::Joining | CommandError::GrowthPlace)
        )
    };
    let mut places = missing.iter().copied();
    let found = match wanted {
        PlaceWanted::First => places.find(is_free),
        PlaceWanted::Missing(wanted) | PlaceWanted::Added(wanted) => {
            places.find(|(_, member)| *member == wanted)
        }
    };
    found.ok_or_else(|| {
        let name = |&(index, member): &(ArrayIndex, MemberIndex)| {
            format!("member {member} of array '{}'", carry.array(index).name())
        };
        let mut missing: Vec<String> = missing.iter().map(name).collect();
        missing.dedup();
        match wanted {
            PlaceWanted::First => AttachError::NothingMissing,
            PlaceWanted::Missing(member) | PlaceWanted::Added(member) => {
                AttachError::NotMissing { member, missing }
            }
        }
    })
}

/// Returns the arrays in use that have superblocks and no arrays as members.
pub(super) fn arrays_of_devices(carry: &Carry) -> impl Iterator<Item = (ArrayIndex, &Array)> {
    in_use(carry).filter(|(_, array)| array.engine().record().is_some() && !array.holds_arrays())
}

/// Returns the layout of a device that becomes this member of an array with superblocks.
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

/// Opens a device and clears it for the decided place. Until it is a member it is the array's
/// spare, so that a command repeated after a crash finds which array it belongs to.
fn add_reserved(
    carry: &mut Carry,
    name: &str,
    coming: &Coming,
    seen: Examined,
) -> Result<DeviceIndex, AttachError> {
    let record = carry.array(coming.array).engine().record();
    let array = record.expect("an array with superblocks").uuid;
    let device = carry.add_device_meanwhile(name)?;
    if let Err(changed) = seen.is_unchanged(name) {
        carry.members_mut().let_go(device);
        return Err(changed.into());
    }
    if let Err(source) = labels::reserve(name, array, &coming.areas) {
        carry.members_mut().let_go(device);
        let device = name.to_owned();
        return Err(AttachError::Clear { device, source });
    }
    Ok(device)
}

/// Sends an array the decided command to take a device.
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
