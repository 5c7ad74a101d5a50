package amqp

import (
	"fmt"
	"math"
	"time"
)

// Descriptors of the performatives (part 2, section 2.7).
const (
	descriptorOpen        = 0x10
	descriptorBegin       = 0x11
	descriptorAttach      = 0x12
	descriptorFlow        = 0x13
	descriptorTransfer    = 0x14
	descriptorDisposition = 0x15
	descriptorDetach      = 0x16
	descriptorEnd         = 0x17
	descriptorClose       = 0x18
)

// Role of the end of a link that speaks: false is the sender, true the receiver.
type Role bool

// Roles.
const (
	RoleSender   Role = false
	RoleReceiver Role = true
)

// Sender and receiver settle modes.
const (
	SenderUnsettled uint8 = 0
	SenderSettled   uint8 = 1
	SenderMixed     uint8 = 2

	ReceiverFirst  uint8 = 0
	ReceiverSecond uint8 = 1
)

type (
	// Open starts a connection.
	Open struct {
		ContainerID  string
		Hostname     string
		MaxFrameSize uint32
		ChannelMax   uint16
		IdleTimeout  time.Duration // zero: none
		Properties   Map
	}
	// Begin starts a session.
	Begin struct {
		RemoteChannel  uint16
		IsReply        bool // RemoteChannel is set
		NextOutgoingID uint32
		IncomingWindow uint32
		OutgoingWindow uint32
		HandleMax      uint32
	}
	// Terminus is a source or a target; nil where there is none.
	Terminus struct {
		Address string
		Filter  Map // of a source only
	}
	// Attach starts a link.
	Attach struct {
		Name                 string
		Handle               uint32
		Role                 Role
		SenderSettleMode     uint8
		ReceiverSettleMode   uint8
		Source, Target       *Terminus
		InitialDeliveryCount uint32
		MaxMessageSize       uint64 // bytes; zero: no limit
		Properties           Map
	}
	// Flow updates windows and, with a handle, a link's credit.
	Flow struct {
		NextIncomingID    uint32
		HasNextIncomingID bool
		IncomingWindow    uint32
		NextOutgoingID    uint32
		OutgoingWindow    uint32
		Handle            uint32
		HasHandle         bool
		DeliveryCount     uint32
		HasDeliveryCount  bool
		LinkCredit        uint32
		HasLinkCredit     bool
		Drain             bool
		Echo              bool
	}
	// Transfer carries a message or a part of one.
	Transfer struct {
		Handle        uint32
		DeliveryID    uint32
		HasDeliveryID bool
		Tag           []byte // a slice of the frame when decoded
		Format        uint32
		Settled       bool
		More          bool
		Aborted       bool
		Payload       []byte // a slice of the frame when decoded
	}
	// Disposition says what became of deliveries First to Last.
	Disposition struct {
		Role        Role
		First, Last uint32
		Settled     bool
		State       State
	}
	// Detach ends a link.
	Detach struct {
		Handle uint32
		Closed bool
		Error  *Error
	}
	// End ends a session.
	End struct{ Error *Error }
	// Close ends a connection.
	Close struct{ Error *Error }
)

// ParsePerformative decodes a frame's body into one of the nine types above, by value.
func ParsePerformative(body []byte) (any, error) {
	r := reader{b: body}
	descriptor := r.descriptor()
	f := r.fields()
	if err := firstError(r.err, f.err); err != nil {
		return nil, err
	}
	var p any
	switch descriptor {
	case descriptorTransfer:
		p = parseTransfer(&f, r.rest())
	case descriptorDisposition:
		p = parseDisposition(&f)
	case descriptorFlow:
		p = parseFlow(&f)
	case descriptorAttach:
		p = parseAttach(&f)
	case descriptorDetach:
		p = Detach{Handle: f.uint(0), Closed: f.boolean(), Error: f.error()}
	case descriptorBegin:
		p = parseBegin(&f)
	case descriptorEnd:
		p = End{Error: f.error()}
	case descriptorOpen:
		p = parseOpen(&f)
	case descriptorClose:
		p = Close{Error: f.error()}
	default:
		return nil, fmt.Errorf("amqp: unknown performative 0x%02x", descriptor)
	}
	return p, f.err
}

// IsTransfer says cheaply whether a frame's body is a transfer, and decodes it without allocating.
func IsTransfer(body []byte) (Transfer, bool, error) {
	if len(body) < 3 || body[0] != codeDescribed || body[1] != codeSmallUlong || body[2] != descriptorTransfer {
		return Transfer{}, false, nil
	}
	r := reader{b: body, off: 3}
	f := r.fields()
	if r.err != nil {
		return Transfer{}, true, r.err
	}
	t := parseTransfer(&f, r.rest())
	return t, true, f.err
}

func parseTransfer(f *fields, payload []byte) Transfer {
	t := Transfer{Handle: f.uint(0)}
	t.DeliveryID, t.HasDeliveryID = f.optionalUint()
	t.Tag = f.binary()
	t.Format = f.uint(0)
	t.Settled = f.boolean()
	t.More = f.boolean()
	f.skip() // rcv-settle-mode
	f.skip() // state
	f.skip() // resume
	t.Aborted = f.boolean()
	t.Payload = payload
	return t
}

func parseDisposition(f *fields) Disposition {
	d := Disposition{Role: Role(f.boolean()), First: f.uint(0)}
	d.Last = f.uint(d.First)
	d.Settled = f.boolean()
	d.State = f.state()
	return d
}

func parseFlow(f *fields) Flow {
	var p Flow
	p.NextIncomingID, p.HasNextIncomingID = f.optionalUint()
	p.IncomingWindow = f.uint(0)
	p.NextOutgoingID = f.uint(0)
	p.OutgoingWindow = f.uint(0)
	p.Handle, p.HasHandle = f.optionalUint()
	p.DeliveryCount, p.HasDeliveryCount = f.optionalUint()
	p.LinkCredit, p.HasLinkCredit = f.optionalUint()
	f.skip() // available
	p.Drain = f.boolean()
	p.Echo = f.boolean()
	return p
}

func parseAttach(f *fields) Attach {
	a := Attach{Name: f.text(), Handle: f.uint(0), Role: Role(f.boolean())}
	a.SenderSettleMode = f.ubyte(SenderMixed)
	a.ReceiverSettleMode = f.ubyte(ReceiverFirst)
	a.Source = f.terminus(descriptorSource)
	a.Target = f.terminus(descriptorTarget)
	f.skip() // unsettled
	f.skip() // incomplete-unsettled
	a.InitialDeliveryCount = f.uint(0)
	a.MaxMessageSize = f.ulong(0)
	f.skip() // offered-capabilities
	f.skip() // desired-capabilities
	a.Properties = f.mapping()
	return a
}

func parseBegin(f *fields) Begin {
	var b Begin
	if f.has() {
		b.IsReply = true
		f.left++ // it is not null: read it, as a field of its type
		b.RemoteChannel = f.ushort(0)
	}
	b.NextOutgoingID = f.uint(0)
	b.IncomingWindow = f.uint(0)
	b.OutgoingWindow = f.uint(0)
	b.HandleMax = f.uint(math.MaxUint32)
	return b
}

func parseOpen(f *fields) Open {
	o := Open{ContainerID: f.text(), Hostname: f.text()}
	o.MaxFrameSize = f.uint(math.MaxUint32)
	o.ChannelMax = f.ushort(math.MaxUint16)
	o.IdleTimeout = time.Duration(f.uint(0)) * time.Millisecond
	f.skip() // outgoing-locales
	f.skip() // incoming-locales
	f.skip() // offered-capabilities
	f.skip() // desired-capabilities
	o.Properties = f.mapping()
	return o
}

const (
	descriptorSource = 0x28
	descriptorTarget = 0x29
)

// terminus reads a source or target. Any other kind of target (a transaction coordinator) is an error.
func (f *fields) terminus(descriptor uint64) *Terminus {
	if !f.has() {
		return nil
	}
	if d := f.descriptor(); f.err == nil && d != descriptor {
		f.fail(fmt.Errorf("amqp: unsupported terminus 0x%02x; transactions are not supported", d))
		return nil
	}
	inner := f.fields()
	t := &Terminus{Address: inner.text()}
	if descriptor == descriptorSource {
		for range 6 { // durable, expiry-policy, timeout, dynamic, dynamic-node-properties, distribution-mode
			inner.skip()
		}
		t.Filter = inner.mapping()
	}
	if inner.err != nil {
		f.fail(inner.err)
	}
	return t
}

// Append appends the performative to a frame that BeginFrame started.
func (o Open) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorOpen)
	dst = appendString(appendString(dst, o.ContainerID), o.Hostname)
	dst = appendUint(dst, o.MaxFrameSize)
	dst = AppendValue(dst, o.ChannelMax)
	dst = appendUint(dst, uint32(o.IdleTimeout/time.Millisecond))
	dst = append(dst, codeNull, codeNull, codeNull, codeNull)
	return end32(appendAnnotations(dst, o.Properties), mark, 10)
}

// Append appends the performative to a frame that BeginFrame started.
func (b Begin) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorBegin)
	if b.IsReply {
		dst = AppendValue(dst, b.RemoteChannel)
	} else {
		dst = appendNull(dst)
	}
	dst = appendUint(dst, b.NextOutgoingID)
	dst = appendUint(dst, b.IncomingWindow)
	dst = appendUint(dst, b.OutgoingWindow)
	return end32(appendUint(dst, b.HandleMax), mark, 5)
}

// Append appends the performative to a frame that BeginFrame started.
func (a Attach) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorAttach)
	dst = appendUint(appendString(dst, a.Name), a.Handle)
	dst = appendBool(dst, bool(a.Role))
	dst = append(dst, codeUbyte, a.SenderSettleMode, codeUbyte, a.ReceiverSettleMode)
	dst = a.Source.append(dst, descriptorSource)
	dst = a.Target.append(dst, descriptorTarget)
	dst = append(dst, codeNull, codeNull)
	if a.Role == RoleSender {
		dst = appendUint(dst, a.InitialDeliveryCount)
	} else {
		dst = appendNull(dst)
	}
	if a.MaxMessageSize > 0 {
		dst = appendUlong(dst, a.MaxMessageSize)
	} else {
		dst = appendNull(dst)
	}
	if len(a.Properties) == 0 {
		return end32(dst, mark, 11)
	}
	dst = append(dst, codeNull, codeNull)
	return end32(appendAnnotations(dst, a.Properties), mark, 14)
}

func (t *Terminus) append(dst []byte, descriptor byte) []byte {
	if t == nil {
		return appendNull(dst)
	}
	dst, mark := beginComposite(dst, descriptor)
	dst = appendString(dst, t.Address)
	if len(t.Filter) == 0 || descriptor != descriptorSource {
		return end32(dst, mark, 1)
	}
	dst = append(dst, codeNull, codeNull, codeNull, codeNull, codeNull, codeNull)
	return end32(appendAnnotations(dst, t.Filter), mark, 8)
}

// Append appends the performative to a frame that BeginFrame started.
func (p Flow) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorFlow)
	if p.HasNextIncomingID {
		dst = appendUint(dst, p.NextIncomingID)
	} else {
		dst = appendNull(dst)
	}
	dst = appendUint(dst, p.IncomingWindow)
	dst = appendUint(dst, p.NextOutgoingID)
	dst = appendUint(dst, p.OutgoingWindow)
	if !p.HasHandle {
		dst = append(dst, codeNull, codeNull, codeNull, codeNull, codeNull)
		return end32(appendBool(dst, p.Echo), mark, 10)
	}
	dst = appendUint(dst, p.Handle)
	dst = appendUint(dst, p.DeliveryCount)
	dst = appendUint(dst, p.LinkCredit)
	dst = appendNull(dst)
	return end32(appendBool(appendBool(dst, p.Drain), p.Echo), mark, 10)
}

// Append appends the performative and its payload to a frame that BeginFrame started.
func (t Transfer) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorTransfer)
	dst = appendUint(dst, t.Handle)
	if t.HasDeliveryID {
		dst = appendUint(dst, t.DeliveryID)
		dst = appendBinary(dst, t.Tag)
		dst = appendUint(dst, t.Format)
	} else {
		dst = append(dst, codeNull, codeNull, codeNull)
	}
	dst = appendBool(appendBool(dst, t.Settled), t.More)
	return append(end32(dst, mark, 6), t.Payload...)
}

// Append appends the performative to a frame that BeginFrame started.
func (d Disposition) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorDisposition)
	dst = appendBool(dst, bool(d.Role))
	dst = appendUint(appendUint(dst, d.First), d.Last)
	dst = appendBool(dst, d.Settled)
	return end32(d.State.append(dst), mark, 5)
}

// Append appends the performative to a frame that BeginFrame started.
func (d Detach) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorDetach)
	dst = appendBool(appendUint(dst, d.Handle), d.Closed)
	return end32(appendError(dst, d.Error), mark, 3)
}

// Append appends the performative to a frame that BeginFrame started.
func (e End) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorEnd)
	return end32(appendError(dst, e.Error), mark, 1)
}

// Append appends the performative to a frame that BeginFrame started.
func (c Close) Append(dst []byte) []byte {
	dst, mark := beginComposite(dst, descriptorClose)
	return end32(appendError(dst, c.Error), mark, 1)
}
