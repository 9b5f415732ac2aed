//! Ethernet: from a port to an interface, and from an adjacency to a port.
