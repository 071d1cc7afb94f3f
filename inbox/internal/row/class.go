package row

// KeptClass is the class of bodies that are needed beyond their day, and
// erasedClass that of events whose body was erased: no body has it. Stored: never
// change.
const (
	KeptClass   = "kept"
	ErasedClass = "erased"
)
