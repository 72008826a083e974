/* The program of a container: it says that it runs. */
#include <stdio.h>

int main(void)
{
	puts("app runs");
	return 0;
}
