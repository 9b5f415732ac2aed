use super::*;

mod life;

#[test]
fn a_buffer_grows_and_shrinks_at_both_ends_and_never_past_them() {
    let pool = Pool::heap(2, 2048);
    let mut cache = pool.cache();
    let mut p = cache.packet_from(b"payload").unwrap();
    p.prepend(4).unwrap().copy_from_slice(b"head");
    p.append(4).unwrap().copy_from_slice(b"tail");
    assert_eq!(p.data(), b"headpayloadtail");
    *p.front().unwrap() = *b"2";
    assert!(p.data() == b"2headpayloadtail" && p.strip(1));
    assert!(p.front::<HEAD_ROOM>().is_none());
    assert!(p.strip(4) && !p.strip(1000));
    p.truncate(7);
    p.truncate(100);
    assert_eq!(p.data(), b"payload");
    let (head, tail) = (p.head_room(), p.tail_room());
    assert!(p.prepend(head + 1).is_none() && p.append(tail + 1).is_none());
    assert!(p.prepend(head).is_some() && p.append(tail).is_some());
    assert_eq!(p.len(), p.chunk_size());
    assert!(p.strip(3));
    p.truncate(7);
    let (head, tail) = (p.head_room(), p.tail_room());
    assert!(p.grow(head + 1, 0).is_none() && p.grow(1, tail + 1).is_none());
    assert!(p.grow(0, usize::MAX - 4096).is_none() && p.len() == 7);
    assert_eq!(p.grow(2, 3).map(|all| all.len()), Some(12));
    assert_eq!((p.head_room(), p.tail_room()), (head - 2, tail - 3));
    assert!(p.strip(2));
    p.truncate(7);
    p.renew(100);
    assert_eq!((p.len(), p.head_room()), (100, HEAD_ROOM));
    p.renew(usize::MAX);
    assert_eq!((p.tail_room(), p.head_room()), (0, HEAD_ROOM));
}

#[test]
fn every_chunk_comes_back_whichever_way_it_goes() {
    let pool = Pool::heap(200, 2048);
    pool.limit_caches(64);
    let mut cache = pool.cache();
    let packets: Vec<_> = std::iter::from_fn(|| cache.packet()).collect();
    assert_eq!(packets.len(), 200, "a pool gives what it has and no more");
    for (i, p) in packets.into_iter().enumerate() {
        if i % 2 == 0 { drop(p) } else { cache.recycle(p) }
    }
    drop(cache);
    assert_eq!(pool.free(), 200);
}

#[test]
fn a_cache_keeps_no_more_than_the_pool_allows() {
    let pool = Pool::heap(100, 2048);
    pool.limit_caches(8);
    let mut cache = pool.cache();
    let packets: Vec<_> = std::iter::from_fn(|| cache.packet()).collect();
    assert_eq!(packets.len(), 100);
    packets.into_iter().for_each(|p| cache.recycle(p));
    assert!(pool.free() > 100 - 8, "{} are free", pool.free());
}

#[test]
fn chunks_given_to_the_kernel_come_back_with_what_it_wrote() {
    let pool = Pool::heap(4, 2048);
    let mut cache = pool.cache();
    let packet = cache.packet_from(&[1; 60]).unwrap();
    assert_eq!(packet.region_offset() % pool.chunk_size(), HEAD_ROOM);
    let index = packet.into_chunk();
    // SAFETY: given away one line above, taken back once.
    let packet = unsafe { pool.from_chunk(index, HEAD_ROOM, 60) };
    assert_eq!(packet.data(), [1; 60]);
}

#[test]
fn packets_move_between_threads_and_pools_stay_apart() {
    let (a, b) = (Pool::heap(4, 2048), Pool::heap(4, 2048));
    let packet = a.cache().packet_from(&[9; 10]).unwrap();
    assert!(a.owns(&packet) && !b.owns(&packet));
    let mut other = b.cache();
    std::thread::spawn(move || other.recycle(packet)).join().unwrap();
    assert_eq!((a.free(), b.free()), (4, 4));
}

#[test]
fn a_prefetch_changes_nothing_and_may_be_out_of_bounds() {
    let pool = Pool::heap(2, 2048);
    let mut p = pool.cache().packet_from(&[7; 100]).unwrap();
    for _ in 0..2 {
        p.prefetch_meta();
        p.prefetch();
        assert!(p.data().iter().all(|&octet| octet == 7));
        // With no octet in front that is the chunk's own.
        p.prepend(p.head_room()).unwrap().fill(7);
    }
    let table = [1u64, 2, 3];
    prefetch(&table[1]);
    [0, 2, 3, usize::MAX].into_iter().for_each(|index| prefetch_slice(&table, index));
    prefetch_slice::<u64>(&[], 0);
    assert_eq!(table, [1, 2, 3]);
}

#[test]
fn wrapping_puts_room_on_both_sides_of_what_is_kept_or_does_nothing() {
    let mut cache = Pool::heap(1, 512).cache();
    let mut packet = cache.packet_from(b"abcdef++").unwrap();
    let before = (packet.head_room(), packet.len());
    let room = packet.tail_room() as u16 + 2;
    assert!(packet.wrap::<4, 8>(9, 8).is_none(), "the packet is shorter");
    assert!(packet.wrap::<4, 8>(6, 7).is_none(), "no room for what is written behind");
    assert!(packet.wrap::<4, 8>(6, room + 1).is_none(), "nor in the chunk");
    assert!(packet.wrap::<4, 8>(6, u16::MAX).is_none());
    assert!(packet.wrap::<257, 0>(6, 0).is_none(), "nor in front");
    assert_eq!(
        (packet.head_room(), packet.len(), packet.data()),
        (before.0, before.1, &b"abcdef++"[..])
    );
    let (front, tail) = packet.wrap::<4, 8>(6, 10).unwrap();
    (*front, *tail) = (*b"1234", *b"87654321");
    assert_eq!((packet.head_room(), packet.len()), (before.0 - 4, 20));
    assert_eq!(packet.data()[..18], *b"1234abcdef87654321");
    let (front, _) = packet.wrap::<2, 1>(20, room - 10).unwrap();
    *front = *b"00";
    assert_eq!((packet.tail_room(), &packet.data()[..6]), (0, &b"001234"[..]));
}
