"""x"""
def remembered(function, numbers=False):
    return function
