/* The program of a container with musl. It is built without musl's headers and
 * start files, which are in a package of their own: the library is enough. */
int puts(const char *);
_Noreturn void exit(int);

__attribute__((force_align_arg_pointer)) _Noreturn void _start(void)
{
	puts("app runs");
	exit(0);
}
