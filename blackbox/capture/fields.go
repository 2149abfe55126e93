package capture

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// fields has the offsets of fields in the kernel's structures, in bytes. The offsets differ from
// kernel to kernel, so each kernel contains a description of them (BTF).
type fields struct {
	family, protocol, localPort, remotePort int16 // in struct sock
	local4, remote4, local6, remote6        int16
	cookie, net, flags, kind                int16
	writeSeq, sndUna, sndNxt, bytesAcked    int16 // in struct tcp_sock
	rcvNxt, copiedSeq, bytesReceived        int16
	bytesSent, bytesAgain                   int16
	clock                                   int16
	waiting                                 int16 // in struct sk_buff_head of struct sock
	unixPeer                                int16 // in struct unix_sock
	netNumber                               int16 // in struct net
	number, leader, name                    int16 // in struct task_struct
	iterKind, iterOffset                    int16 // in struct msghdr
	systemCall, argument                    int16 // in struct pt_regs: number, second argument

	// The offset of a field that the kernel lacks is 0.
	state                    int16 // in struct sock
	dataSegments             int16 // in struct tcp_sock
	packetControl, packetLen int16 // in struct sk_buff
	process                  int16 // in struct task_struct
	cgroups                  int16 // in struct task_struct
	defaultGroup             int16 // in struct css_set
	groupNode                int16 // in struct cgroup
	nodeName, nodeParent     int16 // in struct kernfs_node
	peerProcess              int16 // in struct sock
	processNumber            int16 // in struct pid
	group                    int16 // in struct task_struct
	groupQueue               int16 // in struct cfs_rq
	running                  int16 // in struct rq

	// These are numbers in the kernel's description of itself.
	tcpSock, queue int32      // of struct tcp_sock and struct rq
	cast           btf.TypeID // of the function that casts a pointer to such a struct
}

// The type field names a member of one of the kernel's structures, and the place where the member's
// offset is to be stored.
type field struct {
	place *int16
	in    string
	path  []string
}

func (v field) find(kernel *btf.Spec) error {
	var in *btf.Struct
	if err := kernel.TypeByName(v.in, &in); err != nil {
		return fmt.Errorf("find struct %s: %w", v.in, err)
	}
	bytes, err := memberOffset(in, v.path)
	if err != nil {
		return fmt.Errorf("struct %s: %w", v.in, err)
	}
	*v.place = bytes
	return nil
}

// findMore looks up the fields without which a capture is still possible.
func (f *fields) findMore(kernel *btf.Spec) {
	for _, v := range []field{
		{&f.state, "sock", []string{"__sk_common", "skc_state"}},
		{&f.dataSegments, "tcp_sock", []string{"data_segs_in"}},
		{&f.packetControl, "sk_buff", []string{"cb"}},
		{&f.packetLen, "sk_buff", []string{"len"}},
		{&f.process, "task_struct", []string{"tgid"}},
		{&f.cgroups, "task_struct", []string{"cgroups"}},
		{&f.defaultGroup, "css_set", []string{"dfl_cgrp"}},
		{&f.groupNode, "cgroup", []string{"kn"}},
		{&f.peerProcess, "sock", []string{"sk_peer_pid"}},
		{&f.processNumber, "pid", []string{"numbers"}}, // the first one is the kernel's own
		{&f.group, "task_struct", []string{"se", "cfs_rq"}},
		{&f.groupQueue, "cfs_rq", []string{"rq"}},
		{&f.running, "rq", []string{"curr"}},
		{&f.nodeName, "kernfs_node", []string{"name"}},
		{&f.nodeParent, "kernfs_node", []string{"parent"}},
		{&f.nodeParent, "kernfs_node", []string{"__parent"}}, // since Linux 6.15
	} {
		if v.find(kernel) != nil {
			continue // the place keeps its value
		}
	}
}

// knowsGroups reports whether the kernel says in which cgroup a thread is.
func (f *fields) knowsGroups() bool {
	return f.cgroups != 0 && f.defaultGroup != 0 && f.groupNode != 0 && f.nodeName != 0 &&
		f.nodeParent != 0
}

// findFields looks up all fields in the kernel's description of itself.
func findFields(kernel *btf.Spec) (*fields, error) {
	f := &fields{}
	for _, v := range []field{
		{&f.family, "sock", []string{"__sk_common", "skc_family"}},
		{&f.protocol, "sock", []string{"sk_protocol"}},
		{&f.localPort, "sock", []string{"__sk_common", "skc_num"}},
		{&f.remotePort, "sock", []string{"__sk_common", "skc_dport"}},
		{&f.local4, "sock", []string{"__sk_common", "skc_rcv_saddr"}},
		{&f.remote4, "sock", []string{"__sk_common", "skc_daddr"}},
		{&f.local6, "sock", []string{"__sk_common", "skc_v6_rcv_saddr"}},
		{&f.remote6, "sock", []string{"__sk_common", "skc_v6_daddr"}},
		{&f.cookie, "sock", []string{"__sk_common", "skc_cookie"}},
		{&f.net, "sock", []string{"__sk_common", "skc_net", "net"}},
		{&f.flags, "sock", []string{"__sk_common", "skc_flags"}},
		{&f.kind, "sock", []string{"sk_type"}},
		{&f.writeSeq, "tcp_sock", []string{"write_seq"}},
		{&f.sndUna, "tcp_sock", []string{"snd_una"}},
		{&f.sndNxt, "tcp_sock", []string{"snd_nxt"}},
		{&f.bytesAcked, "tcp_sock", []string{"bytes_acked"}},
		{&f.rcvNxt, "tcp_sock", []string{"rcv_nxt"}},
		{&f.copiedSeq, "tcp_sock", []string{"copied_seq"}},
		{&f.bytesReceived, "tcp_sock", []string{"bytes_received"}},
		{&f.bytesSent, "tcp_sock", []string{"bytes_sent"}},
		{&f.bytesAgain, "tcp_sock", []string{"bytes_retrans"}},
		{&f.clock, "tcp_sock", []string{"tcp_clock_cache"}},
		{&f.waiting, "sock", []string{"sk_receive_queue", "qlen"}},
		{&f.unixPeer, "unix_sock", []string{"peer"}},
		{&f.netNumber, "net", []string{"ns", "inum"}},
		{&f.number, "task_struct", []string{"pid"}},
		{&f.leader, "task_struct", []string{"group_leader"}},
		{&f.name, "task_struct", []string{"comm"}},
		{&f.iterKind, "msghdr", []string{"msg_iter", "iter_type"}},
		{&f.iterOffset, "msghdr", []string{"msg_iter", "iov_offset"}},
		{&f.systemCall, "pt_regs", []string{systemCallField}},
		{&f.argument, "pt_regs", []string{argumentField}},
	} {
		if err := v.find(kernel); err != nil {
			return nil, err
		}
	}
	f.findMore(kernel)
	f.argument += argumentOffset
	return f, f.findNumbers(kernel)
}

// findNumbers looks up the numbers of types and of a function.
func (f *fields) findNumbers(kernel *btf.Spec) error {
	for name, place := range map[string]*int32{"tcp_sock": &f.tcpSock, "rq": &f.queue} {
		var of *btf.Struct
		if err := kernel.TypeByName(name, &of); err != nil {
			return fmt.Errorf("find struct %s: %w", name, err)
		}
		number, err := kernel.TypeID(of)
		if err != nil {
			return err
		}
		*place = int32(number)
	}
	var cast *btf.Func
	err := kernel.TypeByName("bpf_rdonly_cast", &cast)
	if err != nil {
		return fmt.Errorf("find function bpf_rdonly_cast: %w", err)
	}
	f.cast, err = kernel.TypeID(cast)
	return err
}

// knowsRunning reports whether the kernel says which thread a processor runs.
func (f *fields) knowsRunning() bool {
	return f.group != 0 && f.groupQueue != 0 && f.running != 0 && f.process != 0
}

// memberOffset returns the distance of a member from the beginning of a structure. The path names
// the member, and before it the members that contain it. A path leaves out members without a name.
func memberOffset(in btf.Type, path []string) (int16, error) {
	if len(path) == 0 {
		return 0, nil
	}
	var members []btf.Member
	switch t := btf.UnderlyingType(in).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		rest := path
		switch m.Name {
		case path[0]:
			rest = path[1:]
		case "":
		default:
			continue
		}
		inner, err := memberOffset(m.Type, rest)
		if err != nil {
			continue
		}
		bytes := m.Offset.Bytes() + uint32(inner)
		if bytes >= 1<<15 {
			return 0, fmt.Errorf("field %q is %d bytes from the beginning: too far", path[0], bytes)
		}
		return int16(bytes), nil
	}
	return 0, fmt.Errorf("no field %q in this kernel", path[0])
}
