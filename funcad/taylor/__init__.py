"""Taylor mode: power series through programs, and what second derivatives in all directions cost little by."""
