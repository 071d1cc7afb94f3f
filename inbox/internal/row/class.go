package row

// KeptClass is the class of bodies that are needed beyond their day, and
// ErasedClass is the class of events whose body was erased: no body has it. Stored: never
// change.
const (
	KeptClass   = "kept"
	ErasedClass = "erased"
)
