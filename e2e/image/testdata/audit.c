/* A stand-in for the memory hook: an audit library that says that it was
 * loaded, and into what (rtld-audit(7)). It needs nothing but ld.so and
 * write(2), as output buffers are not there yet. */
#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include <unistd.h>

#ifndef NAME
#define NAME "hook"
#endif

static void say(const char *s)
{
	if (write(2, s, strlen(s)) < 0)
		_exit(99);
}

unsigned int la_version(unsigned int version)
{
	(void)version;
	say("audit: " NAME " is loaded\n");
	return LAV_CURRENT;
}
